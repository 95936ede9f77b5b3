-- claim_runs: takes the oldest waiting messages of runnable sessions and starts their runs, each one atomically.
-- keys: runnable; session:<sid>, :queue, :log, :events; run:<rid>; runs:active; sessions; coordinator:<cid>
-- ARGV: 1 cid, 2 JSON array of nonces (one run is claimed per nonce at most), 3 cfg JSON
-- returns: array of {run, session, principal, nonce, payload}
local cid, nonces, cfg = ARGV[1], cjson.decode(ARGV[2]), cjson.decode(ARGV[3])
if redis.call('EXISTS', P .. 'coordinator:' .. cid) == 0 then
  return redis.error_reply('LEASE no heartbeat')
end
local at = now_ms()
local out = {}
while #out < #nonces do
  local sid = redis.call('ZRANGE', P .. 'runnable', 0, 0)[1]
  if not sid then break end
  redis.call('ZREM', P .. 'runnable', sid)
  local skey = P .. 'session:' .. sid
  local active = redis.call('HGET', skey, 'active')
  local payload = false
  if not active or active == '' then
    payload = redis.call('LPOP', skey .. ':queue')
  end
  if payload then
    local run, nonce = cjson.decode(payload).run, nonces[#out + 1]
    local principal = redis.call('HGET', P .. 'run:' .. run, 'principal') or ''
    redis.call('HSET', P .. 'run:' .. run, 'state', 'active', 'owner', cid, 'nonce', nonce, 'started', at, 'seq', 0)
    redis.call('HSET', skey, 'active', run, 'updated', at)
    redis.call('SADD', P .. 'runs:active', run)
    redis.call('ZADD', P .. 'sessions', at, sid)
    redis.call('ZREMRANGEBYRANK', P .. 'sessions', 0, -10001)
    append_log(cfg, sid, 'user.message', run, payload)
    emit(cfg, sid, 'run.started', run, '{}')
    out[#out + 1] = { run, sid, principal, nonce, payload }
  end
end
return out
