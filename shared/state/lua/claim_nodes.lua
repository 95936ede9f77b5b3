-- claim_nodes: a worker takes ledger rows to run them. No row, no run.
-- keys: run:<rid>, :ledger; session:<sid>:events; worker:<wid>
-- ARGV: 1 wid, 2 JSON array of {run, session, node, hash, tool}, 3 cfg JSON, 4 worker nonce, 5 claim id: applied
--       twice, it answers the attempts of the first time
-- returns: array, per node the attempt number, or a reason: unknown, changed, late, taken, ended, deaf
local wid, nodes, cfg, wnonce, claim = ARGV[1], cjson.decode(ARGV[2]), cjson.decode(ARGV[3]), ARGV[4], ARGV[5]
local who = wid .. '/' .. wnonce
local alive = redis.call('EXISTS', P .. 'worker:' .. wid) == 1
local at = now_ms()
local out, seen = {}, {}
for i, n in ipairs(nodes) do
  local key = P .. 'run:' .. n.run .. ':ledger'
  local row = redis.call('HMGET', key, n.node .. ':s', n.node .. ':h', n.node .. ':na', n.node .. ':a',
    n.node .. ':w', n.node .. ':c')
  if not alive then
    out[i] = 'deaf'
  elseif seen[n.node] then
    out[i] = 'taken' -- it stands twice in this very call
  elseif not row[1] then
    out[i] = 'unknown'
  elseif row[1] == 'running' then
    out[i] = (row[5] == who and row[6] == claim) and tonumber(row[4]) or 'taken'
    seen[n.node] = true
  elseif row[1] ~= 'planned' then
    out[i] = 'ended'
  elseif row[2] ~= n.hash then
    out[i] = 'changed'
  elseif at > tonumber(row[3]) then
    out[i] = 'late'
  else
    local attempt = tonumber(row[4]) + 1
    redis.call('HSET', key, n.node .. ':s', 'running', n.node .. ':a', attempt, n.node .. ':w', who,
      n.node .. ':c', claim, n.node .. ':t0', at)
    emit(cfg, n.session, 'node.started', n.run,
      cjson.encode({ node = n.node, tool = n.tool, worker = wid, attempt = attempt }))
    out[i] = attempt
    seen[n.node] = true
  end
end
return out
