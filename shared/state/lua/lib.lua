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

-- Renews the life of all that belongs to a session, so that none of it goes before the rest.
local function keep_session(cfg, sid)
  for _, suffix in ipairs({ '', ':queue', ':log', ':facts', ':todo', ':settings', ':waits' }) do
    redis.call('EXPIRE', P .. 'session:' .. sid .. suffix, cfg.session_ttl_s)
  end
end

-- The life of a run that waits for its turn: no longer than that of its session.
local function keep_queued(cfg, run)
  redis.call('EXPIRE', P .. 'run:' .. run, cfg.session_ttl_s)
  redis.call('EXPIRE', P .. 'run:' .. run .. ':replies', cfg.session_ttl_s)
end

-- The id of a stream's newest entry; '' if it has none.
local function last_entry(key)
  local newest = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  return newest and newest[1] or ''
end

-- Wakes one coordinator, if it is known.
local function hint(cid, kind, run, node)
  if cid and cid ~= '' then
    local key = P .. 'hints:' .. cid
    redis.call('XADD', key, 'MAXLEN', '~', 10000, '*', 'kind', kind, 'run', run, 'node', node or '')
    redis.call('EXPIRE', key, 60)
  end
end

-- Asks one live coordinator to take a run that nobody owns; which one depends on the run, to spread them.
local function summon(run)
  local all = redis.call('ZRANGE', P .. 'coordinators', 0, -1)
  local first = tonumber(string.sub(redis.sha1hex(run), 1, 4), 16)
  for i = 0, #all - 1 do
    local cid = all[(first + i) % #all + 1]
    if redis.call('EXISTS', P .. 'coordinator:' .. cid) == 1 then
      return hint(cid, 'adopt', run)
    end
  end
end

-- The clocks of those that are parked for a subagent stand still while it waits for people: from `since` to `at`,
-- without what another subagent has stopped them for already.
local function stop_clocks_above(run, since, at)
  local parent = redis.call('HGET', P .. 'run:' .. run, 'parent')
  while parent do
    local key = P .. 'run:' .. parent
    local r = redis.call('HMGET', key, 'state', 'parked', 'clock', 'stopped_until', 'parent')
    if r[1] ~= 'parked' or r[3] == 'stopped' then return end
    local from = math.max(since, tonumber(r[2]), tonumber(r[4] or 0))
    if from < at then
      redis.call('HINCRBY', key, 'waited', at - from)
      redis.call('HSET', key, 'stopped_until', at)
    end
    parent = r[5]
  end
end

-- Ends the parking of a run: it may be taken over again. `at` counts what its clock shall not.
local function wake(run, at)
  local key = P .. 'run:' .. run
  local r = redis.call('HMGET', key, 'state', 'parked', 'clock')
  if r[1] ~= 'parked' then return end
  if r[3] == 'stopped' then
    redis.call('HINCRBY', key, 'waited', at - tonumber(r[2]))
    stop_clocks_above(run, tonumber(r[2]), at)
  end
  redis.call('HSET', key, 'state', 'active', 'owner', '', 'nonce', '', 'expected', 1)
  redis.call('ZREM', P .. 'runs:parked', run)
  redis.call('SADD', P .. 'runs:active', run)
  summon(run)
end

-- Puts a control entry into a run's mailbox, and has it read: by the owner, or by whoever takes the parked run.
local function post(run, mail, at)
  local key = P .. 'run:' .. run
  redis.call('RPUSH', key .. ':mail', mail)
  if redis.call('HGET', key, 'state') == 'parked' then
    wake(run, at)
  else
    hint(redis.call('HGET', key, 'owner'), 'mail', run)
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

-- Keeps what is not carried out, with the reason.
local function bury(principal, entry, code, reason, fields)
  redis.call('XADD', P .. 'dead', 'MAXLEN', '~', 1000, '*', 'principal', principal, 'entry', entry,
    'code', code, 'reason', reason, 'fields', fields)
end

-- Marks a session runnable if it has a waiting message and no active run, and lines its owner up to be served.
local function mark_runnable(sid, at)
  local s = redis.call('HMGET', P .. 'session:' .. sid, 'active', 'owner')
  if (s[1] and s[1] ~= '') or not s[2] or redis.call('LLEN', P .. 'session:' .. sid .. ':queue') == 0 then return end
  redis.call('ZADD', P .. 'runnable:' .. s[2], 'NX', at, sid)
  redis.call('ZADD', P .. 'runnable', 'NX', redis.call('ZSCORE', P .. 'turns', s[2]) or 0, s[2])
end

-- The end of a run that never started, with its reply.
local function end_unstarted(cfg, sid, run, principal, reply, at)
  local key = P .. 'run:' .. run
  redis.call('HSET', key, 'state', 'ended', 'reply', reply, 'ended', at)
  for _, name in ipairs(redis.call('SMEMBERS', key .. ':replies')) do
    push_reply(cfg, name, reply)
  end
  redis.call('EXPIRE', key, cfg.run_ttl_s)
  redis.call('EXPIRE', key .. ':replies', cfg.run_ttl_s)
  redis.call('ZREM', P .. 'waiting:' .. principal, run)
  emit(cfg, sid, 'run.failed', run, reply)
end

-- How much of the memory that Redis may use is used, in percent; 0 if it may use all there is.
local function memory_percent()
  local info = redis.call('INFO', 'memory')
  local function number(name)
    return tonumber(string.match(info, '\n' .. name .. ':(%d+)'))
  end
  local most = number('maxmemory')
  if most == 0 then return 0 end
  return (number('used_memory') - number('mem_not_counted_for_evict')) * 100 / most
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
  redis.call('HDEL', P .. 'session:' .. sid .. ':waits', node)
  append_log(cfg, sid, 'node.result', run, log_data)
  emit(cfg, sid, 'node.finished', run, event_data)
  return true
end

-- Starts the run of a subagent: active, owned by nobody yet. It holds no slot; `node` of run `parent` waits for it.
local function spawn(cfg, sid, parent, principal, child, at)
  local key = P .. 'run:' .. child.run
  if redis.call('EXISTS', key) == 1 then return end
  redis.call('HSET', key, 'state', 'active', 'owner', '', 'nonce', '', 'expected', 1, 'session', sid, 'principal',
    principal, 'created', at, 'started', at, 'seq', 0, 'parent', parent, 'node', child.node)
  redis.call('ZADD', P .. 'runs:recent', at, child.run)
  redis.call('ZREMRANGEBYRANK', P .. 'runs:recent', 0, -1001)
  redis.call('SADD', P .. 'runs:active', child.run)
  append_log(cfg, sid, 'user.message', child.run, child.payload)
  summon(child.run)
end

-- Log entries, ledger rows, node ends, waits, children and events of one step, in this order; at the end of a run (`ends_first`) the
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
  local waits = P .. 'session:' .. sid .. ':waits'
  for node, info in pairs(body.waits or {}) do
    redis.call('HSET', waits, node, info)
    redis.call('EXPIRE', waits, cfg.session_ttl_s)
  end
  for _, node in ipairs(body.decided or {}) do
    redis.call('HDEL', waits, node)
  end
  for _, e in ipairs(body.events or {}) do
    emit(cfg, sid, e.t, run, e.d)
  end
  for _, child in ipairs(body.spawn or {}) do
    spawn(cfg, sid, run, redis.call('HGET', P .. 'run:' .. run, 'principal'), child, at)
  end
  for _, child in ipairs(body.cancel or {}) do
    local state = redis.call('HGET', P .. 'run:' .. child, 'state')
    if state == 'active' or state == 'parked' then post(child, body.cancel_mail, at) end
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
