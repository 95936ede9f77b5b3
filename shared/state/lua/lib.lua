-- Put in front of every script. Strings that hold user data stay opaque here: they are never decoded and
-- encoded again, because cjson turns an empty array into an object.
local P = 'capataz:'

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- A public event of a session.
local function emit(cfg, sid, kind, run, data)
  local key = P .. 'session:' .. sid .. ':events'
  redis.call('XADD', key, 'MAXLEN', '~', cfg.events_kept, '*', 'type', kind, 'run', run, 'data', data)
  redis.call('EXPIRE', key, cfg.session_ttl_s)
end

-- An entry of a session's log; returns its id.
local function append_log(cfg, sid, kind, run, data)
  local key = P .. 'session:' .. sid .. ':log'
  local id = redis.call('XADD', key, '*', 't', kind, 'v', '1', 'run', run, 'd', data)
  redis.call('EXPIRE', key, cfg.session_ttl_s)
  return id
end

-- Wakes one coordinator, if it is known.
local function hint(cid, kind, run, node)
  if cid and cid ~= '' then
    local key = P .. 'hints:' .. cid
    redis.call('XADD', key, 'MAXLEN', '~', 10000, '*', 'kind', kind, 'run', run, 'node', node or '')
    redis.call('EXPIRE', key, 60)
  end
end

-- True if (cid, nonce) holds the lease of the run: same token, and the process's heartbeat lives.
local function holds(run, cid, nonce)
  local l = redis.call('HMGET', P .. 'run:' .. run, 'owner', 'nonce', 'state')
  return l[1] == cid and l[2] == nonce and l[3] == 'active'
    and redis.call('EXISTS', P .. 'coordinator:' .. cid) == 1
end

-- Pushes one reply and gives the list its lifetime.
local function push_reply(cfg, name, json)
  local key = P .. 'reply:' .. name
  redis.call('RPUSH', key, json)
  redis.call('EXPIRE', key, cfg.reply_ttl_s)
end

-- Marks a session runnable if it has a waiting message and no active run.
local function mark_runnable(sid, at)
  local active = redis.call('HGET', P .. 'session:' .. sid, 'active')
  if (not active or active == '') and redis.call('LLEN', P .. 'session:' .. sid .. ':queue') > 0 then
    redis.call('ZADD', P .. 'runnable', 'NX', at, sid)
  end
end

-- A terminal state for a node, if it has none yet: ledger, log, event. Returns true if this call ended it.
-- `unstarted`: only if no worker has claimed it, because its result says so.
local function settle(cfg, sid, run, node, state, result, log_data, event_data, at, unstarted)
  local key = P .. 'run:' .. run .. ':ledger'
  local old = redis.call('HGET', key, node .. ':s')
  if not old or (old ~= 'planned' and (unstarted or old ~= 'running')) then
    return false
  end
  redis.call('HSET', key, node .. ':s', state, node .. ':r', result, node .. ':t1', at)
  append_log(cfg, sid, 'node.result', run, log_data)
  emit(cfg, sid, 'node.finished', run, event_data)
  return true
end

-- Log entries, ledger rows, node ends and events of one step, in this order; at the end of a run (`ends_first`) the
-- nodes end before the entries, so that nothing stands behind the run's last one. Returns the log ids.
local function apply_body(cfg, sid, run, body, at)
  local ids = {}
  if body.ends_first then
    for _, n in ipairs(body.ends or {}) do
      settle(cfg, sid, run, n.id, n.state, n.result, n.log, n.event, at, n.unstarted)
    end
    body.ends = nil
  end
  for _, e in ipairs(body.entries or {}) do
    ids[#ids + 1] = append_log(cfg, sid, e.t, run, e.d)
  end
  local ledger = P .. 'run:' .. run .. ':ledger'
  for _, n in ipairs(body.nodes or {}) do
    redis.call('HSETNX', ledger, n.id .. ':s', 'planned')
    redis.call('HSET', ledger, n.id .. ':h', n.hash, n.id .. ':e', n.effect, n.id .. ':na', n.not_after, n.id .. ':a', 0)
  end
  for _, n in ipairs(body.ends or {}) do
    settle(cfg, sid, run, n.id, n.state, n.result, n.log, n.event, at, n.unstarted)
  end
  for _, e in ipairs(body.events or {}) do
    emit(cfg, sid, e.t, run, e.d)
  end
  if body.set then
    for field, value in pairs(body.set) do
      redis.call('HSET', P .. 'run:' .. run, field, value)
    end
  end
  if body.mail_read and body.mail_read > 0 then
    redis.call('LTRIM', P .. 'run:' .. run .. ':mail', body.mail_read, -1)
  end
  return ids
end
