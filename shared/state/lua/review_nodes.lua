#!lua flags=allow-oom
-- review_nodes: the owner looks at its outstanding rows and deals with those whose worker is gone.
-- keys: run:<rid>, :ledger; worker:<wid>; session:<sid>:log, :events, :waits; coordinator:<cid>
-- ARGV: 1 run, 2 cid, 3 nonce, 4 JSON array of {node, unknown = {result, log, event}, failed = {...}},
--       5 most claims, 6 cfg JSON
-- returns: array, per node: planned, running, ended, requeued, missing
local run, cid, nonce = ARGV[1], ARGV[2], ARGV[3]
if not holds(run, cid, nonce) then
  return redis.error_reply('LEASE ' .. run)
end
local most, cfg = tonumber(ARGV[5]), cjson.decode(ARGV[6])
local sid = redis.call('HGET', P .. 'run:' .. run, 'session')
local key = P .. 'run:' .. run .. ':ledger'
local at = now_ms()
local out = {}
for i, n in ipairs(cjson.decode(ARGV[4])) do
  local row = redis.call('HMGET', key, n.node .. ':s', n.node .. ':w', n.node .. ':e', n.node .. ':a')
  local state = row[1] or 'missing'
  if state == 'planned' or state == 'missing' then
    out[i] = state
  elseif state ~= 'running' then
    out[i] = 'ended'
  else
    local wid, wnonce = string.match(row[2], '^(.*)/(.-)$')
    local info = redis.call('GET', P .. 'worker:' .. wid)
    if info and cjson.decode(info).nonce == wnonce then
      out[i] = 'running'
    elseif row[3] == 'write' then
      settle(cfg, sid, run, n.node, 'outcome_unknown', n.unknown.result, n.unknown.log, n.unknown.event, at)
      out[i] = 'ended'
    elseif tonumber(row[4]) >= most then
      settle(cfg, sid, run, n.node, 'failed', n.failed.result, n.failed.log, n.failed.event, at)
      out[i] = 'ended'
    else
      redis.call('HSET', key, n.node .. ':s', 'planned')
      out[i] = 'requeued'
    end
  end
end
return out
