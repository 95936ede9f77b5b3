#!lua flags=allow-oom
-- release: a stopping coordinator gives a run back, so that another takes it over at once.
-- keys: run:<rid>
-- ARGV: 1 run, 2 cid, 3 nonce
-- returns: 1 if it was held
if redis.call('HGET', P .. 'run:' .. ARGV[1], 'owner') == ARGV[2]
  and redis.call('HGET', P .. 'run:' .. ARGV[1], 'nonce') == ARGV[3] then
  redis.call('HSET', P .. 'run:' .. ARGV[1], 'owner', '', 'nonce', '')
  return 1
end
return 0
