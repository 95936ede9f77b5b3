#!lua flags=allow-oom
-- route: takes classified inbox entries, oldest first, each exactly once. What is over a limit is refused.
-- keys: inbox stream; dedupe:*; session:<sid>, :queue, :events, :waits, :log, :facts, :settings, :todo; sessions;
--       run:<rid>, :replies, :mail; runnable; runnable:<principal>; turns; waiting:<principal>; rate:<principal>;
--       dead; reply:*; archive; runs:active; runs:parked; runs:recent; coordinators; coordinator:<cid>; hints:<cid>
-- ARGV: 1 inbox key, 2 principal, 3 JSON array of decisions, 4 cfg JSON
-- returns: how many entries were taken
local inbox, principal = ARGV[1], ARGV[2]
local decisions, cfg = cjson.decode(ARGV[3]), cjson.decode(ARGV[4])
local at = now_ms()
local taken = 0

local function answer_error(d, code, message, retry_after)
  local error = { code = code, message = message }
  if retry_after then
    error.retry_after = retry_after
    error.hint = 'try again in ' .. retry_after .. ' s'
  end
  local body = cjson.encode({ v = 1, ok = false, id = d.id or '', session = d.session or '', error = error })
  if d.reply_to and d.reply_to ~= '' then push_reply(cfg, d.reply_to, body) end
  if d.session and d.session ~= '' and d.owned then
    emit(cfg, d.session, 'notice', d.run or '', cjson.encode({ code = code, text = message, retry_in = retry_after }))
    if redis.call('EXISTS', P .. 'session:' .. d.session) == 0 then -- and perhaps it never will
      redis.call('EXPIRE', P .. 'session:' .. d.session .. ':events', cfg.reply_ttl_s)
    end
  end
  return body
end

local function refuse(d, code, message, retry_after, raw)
  answer_error(d, code, message, retry_after)
  bury(principal, d.entry, code, message, raw)
end

-- The session's owner is fixed by its first message that is taken. `d.owner`: whose it is in the archive.
local function owned(d)
  local owner = redis.call('HGET', P .. 'session:' .. d.session, 'owner') or d.owner
  return owner == principal or (not owner and d.action == 'message')
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

local memory -- looked at once in a call
local function memory_full()
  memory = memory or memory_percent()
  return memory >= cfg.memory_percent
end

-- Seconds until a tenth of a queue will have moved on, if it goes on as it did: so long it took for all that stand in
-- it since `since` (Unix ms).
local function soon(since)
  return math.max(1, math.min(300, math.ceil((at - since) / 10000)))
end

-- Takes a message out of the user's bucket, which holds those of a minute. If it is empty: seconds until it holds one.
-- What counts is when the message came, so that nobody pays for a time in which nobody looked.
local function too_fast(d)
  if cfg.rate_per_minute == 0 then return nil end
  local key = P .. 'rate:' .. principal
  local now, came = at * 1000, math.min(tonumber(string.match(d.entry, '^%d+')), at) * 1000
  local minute = 60000000 -- of microseconds; the key holds the time at which the bucket is full again
  local full = math.max(tonumber(redis.call('GET', key) or 0), came) + math.floor(minute / cfg.rate_per_minute)
  if full > came + minute then
    return math.max(1, math.ceil((full - minute - now) / 1000)) / 1000
  end
  redis.call('SET', key, string.format('%.0f', full), 'PX', math.ceil((math.max(full, now) - now + minute) / 1000))
end

-- Refuses a message that is over a limit. `joins`: it waits for nothing, because its run is under way.
local function over_limit(d, raw, joins)
  local waiting, queue = P .. 'waiting:' .. principal, P .. 'session:' .. d.session .. ':queue'
  if d.beyond then
    refuse(d, 'busy', 'your inbox is full', 10, raw)
  elseif memory_full() then
    refuse(d, 'memory_full', 'the installation has no memory for new messages', 60, raw)
  elseif not joins and redis.call('ZCARD', waiting) >= cfg.waiting then
    local oldest = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')[2]
    refuse(d, 'busy', 'too many messages of yours wait', soon(oldest), raw)
  elseif not joins and redis.call('LLEN', queue) >= cfg.session_queue then
    local oldest = cjson.decode(redis.call('LINDEX', queue, 0)).received_ms
    refuse(d, 'busy', 'this session has too many waiting messages', soon(oldest), raw)
  else
    local wait = too_fast(d)
    if not wait then return false end
    refuse(d, 'too_fast', 'more than ' .. cfg.rate_per_minute .. ' messages a minute', wait, raw)
  end
  return true
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
  local joins = d.mode == 'steer' and active
  if over_limit(d, raw, joins) then return end
  if joins then
    remember(d, active)
    add_reply(active, d.reply_to)
    return post(active, d.mail, at)
  end
  local qkey = skey .. ':queue'
  if redis.call('HSETNX', skey, 'owner', principal) == 1 then redis.call('HSET', skey, 'created', at) end
  remember(d, d.run)
  redis.call('HSET', P .. 'run:' .. d.run, 'state', 'queued', 'session', d.session, 'principal', principal,
    'created', at, 'seq', 0)
  redis.call('ZADD', P .. 'waiting:' .. principal, at, d.run)
  redis.call('ZADD', P .. 'runs:recent', at, d.run)
  redis.call('ZREMRANGEBYRANK', P .. 'runs:recent', 0, -1001)
  add_reply(d.run, d.reply_to)
  if d.mode == 'interrupt' then
    redis.call('LPUSH', qkey, d.payload)
    if active then
      post(active, '{"kind":"cancel","reason":"interrupted by a new message"}', at)
    end
  else
    redis.call('RPUSH', qkey, d.payload)
  end
  if not active then keep_session(cfg, d.session) end
  redis.call('EXPIRE', qkey, cfg.session_ttl_s)
  keep_queued(cfg, d.run)
  emit(cfg, d.session, 'message.accepted', d.run, cjson.encode({ id = d.id or '', mode = d.mode }))
  mark_runnable(d.session, at + taken / 1000) -- in the order in which they came
end

-- Takes a run that nobody started yet out of its queue and answers for it.
local function cancel_queued(run, session)
  local qkey = P .. 'session:' .. session .. ':queue'
  for _, payload in ipairs(redis.call('LRANGE', qkey, 0, -1)) do
    if cjson.decode(payload).run == run then
      redis.call('LREM', qkey, 1, payload)
      end_unstarted(cfg, session, run, principal, cjson.encode({ v = 1, ok = false, run = run, session = session,
        finish_reason = 'cancelled', error = { code = 'cancelled', message = 'cancelled before it started' } }), at)
    end
  end
end

-- The only node in a session that waits for a person; nothing, and the entry is refused, if there is not exactly one.
local function waiting_node(d, raw)
  local skey = P .. 'session:' .. d.session
  if redis.call('HGET', skey, 'owner') ~= principal then
    return refuse(d, 'not_found', 'no such session of yours', nil, raw)
  end
  local nodes = redis.call('HKEYS', skey .. ':waits')
  if #nodes == 0 then
    return refuse(d, 'not_waiting', 'nothing in this session waits for an answer', nil, raw)
  elseif #nodes > 1 then
    table.sort(nodes)
    return refuse(d, 'ambiguous', 'several nodes wait, name one as node: ' .. table.concat(nodes, ', '), nil, raw)
  end
  return nodes[1]
end

local function control(d, raw)
  if known(d) then
    if d.reply_to and d.reply_to ~= '' then
      push_reply(cfg, d.reply_to, cjson.encode({ v = 1, ok = true, id = d.id }))
    end
    return
  end
  local run, mail = d.target_run or '', d.mail
  if run == '' and d.answers then
    local node = waiting_node(d, raw)
    if not node then return end
    run = string.match(node, '^[^.]+')
    -- It is about this node, whatever waits by the time it is read. (Without one, `mail` does not name any.)
    mail = '{"node":' .. cjson.encode(node) .. ',' .. string.sub(mail, 2)
  elseif run == '' and d.session ~= '' then
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
  post(run, mail, at)
  if d.reply_to and d.reply_to ~= '' then push_reply(cfg, d.reply_to, cjson.encode({ v = 1, ok = true, run = run })) end
end

-- Calls `visit(id, fields, flat)` for each entry of a log up to the id `last`, oldest first.
local function each_entry(log, last, visit)
  local from = '-'
  repeat
    local page = redis.call('XRANGE', log, from, last, 'COUNT', 500)
    for _, e in ipairs(page) do
      local fields = {}
      for i = 1, #e[2], 2 do fields[e[2][i]] = e[2][i + 1] end
      visit(e[1], fields, e[2])
      from = '(' .. e[1]
    end
  until #page < 500
end

-- True for the entry that opens the run of a message; the run of a subagent belongs to its parent's.
local function opens_turn(fields)
  if fields.t ~= 'user.message' then return false end
  local read, message = pcall(cjson.decode, fields.d)
  return read and (message.parent or '') == ''
end

-- The newest turn of a log that was not taken back, by its run.
local function last_turn(log)
  local run, gone = nil, {}
  local before = '+'
  repeat
    local page = redis.call('XREVRANGE', log, before, '-', 'COUNT', 100)
    for _, e in ipairs(page) do
      local fields = {}
      for i = 1, #e[2], 2 do fields[e[2][i]] = e[2][i + 1] end
      if fields.t == 'undone' then
        gone[fields.run] = true
      elseif not gone[fields.run] and opens_turn(fields) then
        return fields.run
      end
      before = '(' .. e[1]
    end
  until #page < 100
end

-- Takes the newest turn out of the conversation. What it did stays done, and its facts stay.
local function undo(d, raw)
  local skey = P .. 'session:' .. d.session
  if (redis.call('HGET', skey, 'active') or '') ~= '' or redis.call('LLEN', skey .. ':queue') > 0 then
    return refuse(d, 'busy', 'the session has a run under way or a message that waits: let it end, or cancel it', 5, raw)
  end
  local run = last_turn(skey .. ':log')
  if not run then return refuse(d, 'not_found', 'there is no turn to take back', nil, raw) end
  local body = cjson.encode({ run = run })
  append_log(cfg, d.session, 'undone', run, body)
  emit(cfg, d.session, 'undone', run, body)
  local rkey = P .. 'run:' .. run -- it may have expired, and the copy of its log needs to know whose it is
  redis.call('HSETNX', rkey, 'session', d.session)
  redis.call('HSETNX', rkey, 'principal', principal)
  redis.call('HSETNX', rkey, 'state', 'ended')
  redis.call('EXPIRE', rkey, cfg.run_ttl_s)
  redis.call('ZADD', P .. 'archive', at, run)
  return run
end

-- How far a log can be copied up to the entry `last` without cutting a run: the id of the last such entry, and the
-- last run that had ended by then.
local function whole_turns(log, last)
  local open, ended, upto
  each_entry(log, last, function(id, fields)
    if opens_turn(fields) then
      open = fields.run
    elseif fields.t == 'run.ended' and fields.run == open then
      open, ended = nil, fields.run
    end
    if not open then upto = id end
  end)
  return upto, ended
end

-- Copies a session's log, with the ids of its entries, and what its facts were then, into a new session.
local function fork(d, raw)
  if memory_full() then
    return refuse(d, 'memory_full', 'the installation has no memory for another session', 60, raw)
  end
  local from = P .. 'session:' .. d.session
  local to = P .. 'session:' .. d.to
  if d.taken or redis.call('EXISTS', to, to .. ':log') > 0 then
    return refuse(d, 'exists', 'the session ' .. d.to .. ' exists already; choose another name', nil, raw)
  end
  if d.at ~= '' and #redis.call('XRANGE', from .. ':log', d.at, d.at) == 0 then
    return refuse(d, 'not_found', 'the log of ' .. d.session .. ' has no entry ' .. d.at, nil, raw)
  end
  local upto, run = whole_turns(from .. ':log', d.at ~= '' and d.at or '+')
  if not run then return refuse(d, 'not_found', 'no run had ended by then: there is nothing to copy', nil, raw) end
  each_entry(from .. ':log', upto, function(id, fields, flat)
    redis.call('XADD', to .. ':log', id, unpack(flat))
    local name, version, row
    if fields.t == 'fact.set' then
      name, version, row = string.match(fields.d, '^{"name":(".-"),"version":(%d+),"row":(.*)}$')
    end
    if name then -- as text: rows are never decoded here
      name = cjson.decode('[' .. name .. ']')[1]
      redis.call('HSET', to .. ':facts', name .. ':v', version, name .. ':d', row, name .. ':o', '')
    end
  end)
  redis.call('HSET', to, 'owner', principal, 'created', at, 'updated', at)
  local switches = redis.call('HGETALL', from .. ':settings')
  if #switches > 0 then redis.call('HSET', to .. ':settings', unpack(switches)) end
  for _, suffix in ipairs({ '', ':log', ':facts', ':settings' }) do
    redis.call('EXPIRE', to .. suffix, cfg.session_ttl_s)
  end
  redis.call('ZADD', P .. 'sessions', at, d.to)
  return run
end

-- Changes how a session goes on; whoever works on it looks before each step.
local function switch(d)
  local key = P .. 'session:' .. d.session .. ':settings'
  for field, value in pairs(d.set) do
    if value == '' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, value) end
  end
  redis.call('EXPIRE', key, cfg.session_ttl_s)
  return ''
end

local commands = { undo = undo, fork = fork, set = switch }

local function command(d, raw)
  local run = known(d)
  if not run then
    if not owned(d) then return refuse(d, 'not_found', 'no such session of yours', nil, raw) end
    d.owned = true
    run = commands[d.command](d, raw)
    if not run then return end -- refused
    remember(d, run)
  end
  if d.reply_to == '' then return end
  local session = d.command == 'fork' and d.to or d.session
  push_reply(cfg, d.reply_to, cjson.encode({ v = 1, ok = true, id = d.id, run = run, session = session }))
end

-- True if the session was here when somebody looked, and is not any more: the archive is to be asked first. The entry
-- stays until then.
local function vanished(d)
  return d.known and redis.call('HEXISTS', P .. 'session:' .. d.session, 'owner') == 0
end

for _, d in ipairs(decisions) do
  local found = redis.call('XRANGE', inbox, d.entry, d.entry)
  if #found == 1 and not vanished(d) then
    if d.action == 'message' then
      message(d, d.raw)
    elseif d.action == 'control' then
      control(d, d.raw)
    elseif d.action == 'command' then
      command(d, d.raw)
    else
      if d.reply_to and d.reply_to ~= '' then push_reply(cfg, d.reply_to, d.reply) end
      bury(principal, d.entry, d.code, d.reason, d.raw)
    end
    redis.call('XDEL', inbox, d.entry)
    taken = taken + 1
  end
end
return taken
