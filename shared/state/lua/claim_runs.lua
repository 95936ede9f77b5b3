#!lua flags=allow-oom
-- claim_runs: starts runs of waiting messages, each one atomically: users in turn, of each the session that waits
-- longest. A message that has waited too long is answered instead. Nothing starts while memory is full.
-- keys: runnable; runnable:<principal>; turns; waiting:<principal>; session:<sid>, :queue, :log, :events;
--       run:<rid>, :replies; runs:active; runs:active:<principal>; sessions; dedupe:*; dead; reply:*; coordinator:<cid>
-- ARGV: 1 cid, 2 JSON array of nonces (one run is claimed per nonce at most), 3 cfg JSON
-- returns: array of {run, session, principal, nonce, payload}
local cid, nonces, cfg = ARGV[1], cjson.decode(ARGV[2]), cjson.decode(ARGV[3])
if redis.call('EXISTS', P .. 'coordinator:' .. cid) == 0 then
  return redis.error_reply('LEASE no heartbeat')
end
local line = redis.call('ZRANGE', P .. 'runnable', 0, -1)
if #line == 0 or memory_percent() >= 100 then return {} end
local at = now_ms()
local out = {}
local patience = 1000 -- messages answered as too late in one call at most

-- The user's active runs that messages opened. Those of subagents are not in the user's set, parked ones not in the other.
local function has_room(who)
  return cfg.running == 0
    or redis.call('SINTERCARD', 2, P .. 'runs:active:' .. who, P .. 'runs:active', 'LIMIT', cfg.running) < cfg.running
end

-- The beginning of a text, as long as dead letters keep it, without half a character at its end.
local function cut(text)
  local last = 4000
  if #text <= last then return text end
  while string.find(text, '^[\128-\191]', last + 1) do last = last - 1 end
  return string.sub(text, 1, last) .. '…'
end

-- Answers a message whose time has passed. Its id is forgotten, so that the same message may be sent again.
local function expire(who, sid, payload, m)
  local waited = math.floor((at - m.received_ms) / 1000)
  local error = { code = 'too_late', message = 'this message waited ' .. waited .. ' s for its turn, longer than '
    .. cfg.queue_age_s .. ' s', hint = 'send it again if it still matters', retry_after = math.max(1, cfg.queue_age_s) }
  local body = cjson.encode({ v = 1, ok = false, id = m.id or '', run = m.run, session = sid, finish_reason = 'error',
    error = error })
  end_unstarted(cfg, sid, m.run, who, body, at)
  local id = m.id or ''
  local dedupe = P .. 'dedupe:' .. who .. ':' .. id
  if redis.call('GET', dedupe) == m.run then redis.call('DEL', dedupe) end
  bury(who, '', error.code, error.message, cut(payload))
end

-- The next message of a session that may start; nothing if none waits, or a run is under way.
local function next_message(who, sid)
  local skey = P .. 'session:' .. sid
  if (redis.call('HGET', skey, 'active') or '') ~= '' then return nil end
  while patience > 0 do
    local payload = redis.call('LPOP', skey .. ':queue')
    if not payload then return nil end
    local m = cjson.decode(payload)
    if cfg.queue_age_s == 0 or at - m.received_ms <= cfg.queue_age_s * 1000 then return payload, m.run end
    expire(who, sid, payload, m)
    patience = patience - 1
  end
  mark_runnable(sid, at) -- the rest of them next time
end

local function start(who, sid, run, payload)
  local nonce = nonces[#out + 1]
  redis.call('HSET', P .. 'run:' .. run, 'state', 'active', 'owner', cid, 'nonce', nonce, 'started', at, 'seq', 0)
  redis.call('HSET', P .. 'session:' .. sid, 'active', run, 'updated', at)
  for _, key in ipairs({ P .. 'run:' .. run, P .. 'run:' .. run .. ':replies', P .. 'session:' .. sid }) do
    redis.call('PERSIST', key) -- until the run ends, however long that takes
  end
  redis.call('SADD', P .. 'runs:active', run)
  redis.call('SADD', P .. 'runs:active:' .. who, run)
  redis.call('ZREM', P .. 'waiting:' .. who, run)
  redis.call('ZADD', P .. 'sessions', at, sid)
  redis.call('ZREMRANGEBYRANK', P .. 'sessions', 0, -10001)
  append_log(cfg, sid, 'user.message', run, payload)
  emit(cfg, sid, 'run.started', run, '{}')
  out[#out + 1] = { run, sid, who, nonce, payload }
end

-- Starts one run of a user, who goes to the end of the line, or leaves it if no session is runnable any more.
-- Returns true if the user may be served again.
local function serve(who)
  local sessions = P .. 'runnable:' .. who
  local started = false
  while not started and patience > 0 do
    local sid = redis.call('ZPOPMIN', sessions)[1]
    if not sid then break end
    local payload, run = next_message(who, sid)
    if payload then
      start(who, sid, run, payload)
      started = true
    end
  end
  if started then
    local last = redis.call('ZRANGE', P .. 'turns', -1, -1, 'WITHSCORES')[2] or 0
    redis.call('ZADD', P .. 'turns', last + 1, who)
    redis.call('ZREMRANGEBYRANK', P .. 'turns', 0, -10001)
    redis.call('ZADD', P .. 'runnable', 'XX', last + 1, who)
  end
  if redis.call('EXISTS', sessions) == 1 then return patience > 0 end
  redis.call('ZREM', P .. 'runnable', who)
  return false
end

while #line > 0 and #out < #nonces do
  local again = {}
  for _, who in ipairs(line) do
    if #out == #nonces then break end
    if has_room(who) and serve(who) then again[#again + 1] = who end
  end
  line = again
end
return out
