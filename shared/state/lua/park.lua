#!lua flags=allow-oom
-- park: a run that only waits gives its lease back and keeps its slot, until mail, a node's end or a time wakes it.
-- Meanwhile nothing of its session ends, however long that takes.
-- keys: run:<rid>, :ledger, :mail; session:<sid>:queue, :log, :facts, :todo, :settings, :waits; runs:active;
--       runs:parked; coordinator:<cid>
-- ARGV: 1 run, 2 cid, 3 nonce, 4 JSON array of the nodes that it waits for, 5 Unix ms at which it wakes by itself,
--       6 '1' if its clock stands still meanwhile
-- returns: 'parked', or 'news' (nothing was done: mail is there, or one of the nodes has ended)
local run, cid, nonce = ARGV[1], ARGV[2], ARGV[3]
local rkey = P .. 'run:' .. run
if redis.call('HGET', rkey, 'state') == 'parked' then return 'parked' end
if not holds(run, cid, nonce) then
  return redis.error_reply('LEASE ' .. run)
end
if redis.call('LLEN', rkey .. ':mail') > 0 then return 'news' end
for _, node in ipairs(cjson.decode(ARGV[4])) do
  local state = redis.call('HGET', rkey .. ':ledger', node .. ':s')
  if state ~= 'planned' and state ~= 'running' then return 'news' end
end
redis.call('HSET', rkey, 'state', 'parked', 'owner', '', 'nonce', '', 'parked', now_ms(),
  'clock', ARGV[6] == '1' and 'stopped' or 'running')
redis.call('ZADD', P .. 'runs:parked', ARGV[5], run)
redis.call('SREM', P .. 'runs:active', run)
local sid = redis.call('HGET', rkey, 'session')
for _, suffix in ipairs({ ':queue', ':log', ':facts', ':todo', ':settings', ':waits' }) do
  redis.call('PERSIST', P .. 'session:' .. sid .. suffix)
end
return 'parked'
