-- route: takes classified inbox entries, oldest first, each exactly once.
-- keys: inbox stream; dedupe:*; session:<sid>, :queue, :events; run:<rid>, :replies, :mail; runnable; dead; reply:*;
--       runs:recent; hints:<cid>
-- ARGV: 1 inbox key, 2 principal, 3 JSON array of decisions, 4 cfg JSON
-- returns: how many entries were taken
local inbox, principal = ARGV[1], ARGV[2]
local decisions, cfg = cjson.decode(ARGV[3]), cjson.decode(ARGV[4])
local at = now_ms()

local function answer_error(d, code, message, retry_after)
  local error = { code = code, message = message }
  if retry_after then error.retry_after = retry_after end
  local body = cjson.encode({ v = 1, ok = false, id = d.id or '', session = d.session or '', error = error })
  if d.reply_to and d.reply_to ~= '' then push_reply(cfg, d.reply_to, body) end
  if d.session and d.session ~= '' and d.owned then
    emit(cfg, d.session, 'notice', d.run or '', cjson.encode({ code = code, text = message }))
  end
  return body
end

local function bury(d, code, message, raw)
  redis.call('XADD', P .. 'dead', 'MAXLEN', '~', 1000, '*', 'principal', principal, 'entry', d.entry,
    'code', code, 'reason', message, 'fields', raw)
end

local function refuse(d, code, message, retry_after, raw)
  answer_error(d, code, message, retry_after)
  bury(d, code, message, raw)
end

-- The session's owner is fixed by its first message.
local function owned(d)
  local key = P .. 'session:' .. d.session
  local owner = redis.call('HGET', key, 'owner')
  if not owner then
    if d.action ~= 'message' then return false end
    redis.call('HSET', key, 'owner', principal, 'created', at)
    owner = principal
  end
  return owner == principal
end

local function known(d)
  if not d.id or d.id == '' then return nil end
  return redis.call('GET', P .. 'dedupe:' .. principal .. ':' .. d.id)
end

local function remember(d, run)
  if d.id and d.id ~= '' then
    redis.call('SET', P .. 'dedupe:' .. principal .. ':' .. d.id, run, 'EX', cfg.dedupe_ttl_s)
  end
end

local function add_reply(run, name)
  if not name or name == '' then return end
  local r = redis.call('HMGET', P .. 'run:' .. run, 'reply', 'state')
  if r[1] then
    push_reply(cfg, name, r[1])
  elseif r[2] then
    redis.call('SADD', P .. 'run:' .. run .. ':replies', name)
  else
    push_reply(cfg, name, cjson.encode({ v = 1, ok = false, run = run,
      error = { code = 'expired', message = 'this message was dealt with, and its answer is no longer kept' } }))
  end
end

local function message(d, raw)
  local dup = known(d)
  if dup then
    add_reply(dup, d.reply_to)
    return
  end
  if not owned(d) then
    return refuse(d, 'forbidden', 'session ' .. d.session .. ' belongs to another user', nil, raw)
  end
  d.owned = true
  local skey = P .. 'session:' .. d.session
  local active = redis.call('HGET', skey, 'active')
  if active == '' then active = nil end
  if d.mode == 'steer' and active then
    remember(d, active)
    add_reply(active, d.reply_to)
    redis.call('RPUSH', P .. 'run:' .. active .. ':mail', d.mail)
    return hint(redis.call('HGET', P .. 'run:' .. active, 'owner'), 'mail', active)
  end
  local qkey = skey .. ':queue'
  if redis.call('LLEN', qkey) >= cfg.session_queue then
    return refuse(d, 'busy', 'this session has too many waiting messages', 30, raw)
  end
  remember(d, d.run)
  redis.call('HSET', P .. 'run:' .. d.run, 'state', 'queued', 'session', d.session, 'principal', principal,
    'created', at, 'seq', 0)
  redis.call('ZADD', P .. 'runs:recent', at, d.run)
  redis.call('ZREMRANGEBYRANK', P .. 'runs:recent', 0, -1001)
  add_reply(d.run, d.reply_to)
  if d.mode == 'interrupt' then
    redis.call('LPUSH', qkey, d.payload)
    if active then
      redis.call('RPUSH', P .. 'run:' .. active .. ':mail', '{"kind":"cancel","reason":"interrupted by a new message"}')
      hint(redis.call('HGET', P .. 'run:' .. active, 'owner'), 'mail', active)
    end
  else
    redis.call('RPUSH', qkey, d.payload)
  end
  redis.call('EXPIRE', skey, cfg.session_ttl_s)
  redis.call('EXPIRE', qkey, cfg.session_ttl_s)
  emit(cfg, d.session, 'message.accepted', d.run, cjson.encode({ id = d.id or '', mode = d.mode }))
  mark_runnable(d.session, at)
end

-- Takes a run that nobody started yet out of its queue and answers for it.
local function cancel_queued(run, session)
  local qkey = P .. 'session:' .. session .. ':queue'
  for _, payload in ipairs(redis.call('LRANGE', qkey, 0, -1)) do
    if cjson.decode(payload).run == run then
      redis.call('LREM', qkey, 1, payload)
      local body = cjson.encode({ v = 1, ok = false, run = run, session = session, finish_reason = 'cancelled',
        error = { code = 'cancelled', message = 'cancelled before it started' } })
      redis.call('HSET', P .. 'run:' .. run, 'state', 'ended', 'reply', body, 'ended', at)
      for _, name in ipairs(redis.call('SMEMBERS', P .. 'run:' .. run .. ':replies')) do
        push_reply(cfg, name, body)
      end
      redis.call('EXPIRE', P .. 'run:' .. run, cfg.run_ttl_s)
      redis.call('EXPIRE', P .. 'run:' .. run .. ':replies', cfg.run_ttl_s)
      emit(cfg, session, 'run.failed', run, body)
    end
  end
end

local function control(d, raw)
  if known(d) then
    if d.reply_to and d.reply_to ~= '' then
      push_reply(cfg, d.reply_to, cjson.encode({ v = 1, ok = true, id = d.id }))
    end
    return
  end
  local run = d.target_run or ''
  if run == '' and d.session ~= '' then
    run = redis.call('HGET', P .. 'session:' .. d.session, 'active') or ''
  end
  local r = redis.call('HMGET', P .. 'run:' .. run, 'principal', 'state', 'owner', 'session')
  if not r[1] or r[1] ~= principal then
    return refuse(d, 'not_found', 'no such run of yours', nil, raw)
  end
  if r[2] == 'queued' then
    if d.kind == 'cancel' then
      cancel_queued(run, r[4])
      if d.reply_to and d.reply_to ~= '' then push_reply(cfg, d.reply_to, cjson.encode({ v = 1, ok = true, run = run })) end
      return
    end
    return refuse(d, 'not_started', 'the run has not started yet', 1, raw)
  end
  if r[2] == 'ended' then
    return refuse(d, 'ended', 'the run has ended already', nil, raw)
  end
  remember(d, run)
  redis.call('RPUSH', P .. 'run:' .. run .. ':mail', d.mail)
  hint(r[3], 'mail', run)
  if d.reply_to and d.reply_to ~= '' then push_reply(cfg, d.reply_to, cjson.encode({ v = 1, ok = true, run = run })) end
end

local taken = 0
for _, d in ipairs(decisions) do
  local found = redis.call('XRANGE', inbox, d.entry, d.entry)
  if #found == 1 then
    if d.action == 'message' then
      message(d, d.raw)
    elseif d.action == 'control' then
      control(d, d.raw)
    else
      if d.reply_to and d.reply_to ~= '' then push_reply(cfg, d.reply_to, d.reply) end
      bury(d, d.code, d.reason, d.raw)
    end
    redis.call('XDEL', inbox, d.entry)
    taken = taken + 1
  end
end
return taken
