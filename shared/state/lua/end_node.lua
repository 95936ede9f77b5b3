#!lua flags=allow-oom
-- end_node: a worker ends a row that it claimed. The first terminal state wins.
-- keys: run:<rid>, :ledger; session:<sid>:log, :events, :waits; hints:<cid>
-- ARGV: 1 wid/nonce, 2 run, 3 node, 4 attempt, 5 state, 6 result JSON, 7 log JSON, 8 event JSON, 9 cfg JSON
-- returns: 'ok', 'again' (it ended with this very claim before), or 'lost'
local who, run, node, attempt = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key = P .. 'run:' .. run .. ':ledger'
local row = redis.call('HMGET', key, node .. ':s', node .. ':a', node .. ':w')
if row[2] ~= attempt or row[3] ~= who then return 'lost' end
if row[1] ~= 'running' then
  if row[1] == ARGV[5] then return 'again' end
  return 'lost'
end
local r = redis.call('HMGET', P .. 'run:' .. run, 'session', 'owner')
if not r[1] then return 'lost' end
settle(cjson.decode(ARGV[9]), r[1], run, node, ARGV[5], ARGV[6], ARGV[7], ARGV[8], now_ms())
hint(r[2], 'node', run, node)
return 'ok'
