#!lua flags=allow-oom
-- give_back: a stopping worker gives claimed rows back that have had no effect.
-- keys: run:<rid>, :ledger; hints:<cid>
-- ARGV: 1 wid/nonce, 2 run, 3 node, 4 attempt
-- returns: 1 if given back
local key = P .. 'run:' .. ARGV[2] .. ':ledger'
local row = redis.call('HMGET', key, ARGV[3] .. ':s', ARGV[3] .. ':a', ARGV[3] .. ':w', ARGV[3] .. ':e')
if row[1] == 'running' and row[2] == ARGV[4] and row[3] == ARGV[1] and row[4] ~= 'write' then
  -- the claim does not count: the worker did not die of it
  redis.call('HSET', key, ARGV[3] .. ':s', 'planned', ARGV[3] .. ':a', tonumber(ARGV[4]) - 1)
  hint(redis.call('HGET', P .. 'run:' .. ARGV[2], 'owner'), 'node', ARGV[2], ARGV[3])
  return 1
end
return 0
