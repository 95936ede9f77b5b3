#!lua flags=allow-oom
-- restore_session: a session that only the archive had: its pages become its log if it has none, with owner and facts;
-- runs that were lost with the state are ended in it, each once.
-- keys: session:<sid>, :log, :log:<part>, :facts, :events; sessions; run:<rid>; runs:recent; reply:*; archive
-- ARGV: 1 sid, 2 owner, 3 part, 4 id of the last entry of all pages ('' if there are none), 5 JSON {updated,
--       facts = {name = {v, d}}, lost = array of {run, created, started, entries, events, reply, replies}}, 6 cfg JSON
-- returns: array of the lost runs that have been told of, now or before
local sid, owner, part, last = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local given, cfg = cjson.decode(ARGV[5]), cjson.decode(ARGV[6])
local skey = P .. 'session:' .. sid
local pages = P .. 'session:' .. sid .. ':log:' .. part
local at = now_ms()
local present = redis.call('HGET', skey, 'owner')
if present and present ~= owner then
  return redis.error_reply('CONFLICT session ' .. sid .. ' belongs to another user than its archive says')
end

if redis.call('EXISTS', skey .. ':log') == 0 then
  if last_entry(pages) ~= last then
    return redis.error_reply('CONFLICT the rebuilding of session ' .. sid .. ' has expired')
  end
  if last ~= '' then
    redis.call('RENAME', pages, skey .. ':log')
    redis.call('EXPIRE', skey .. ':log', cfg.session_ttl_s)
    redis.call('HSET', skey, 'archived', last)
  end
  for name, fact in pairs(given.facts) do
    redis.call('HSET', skey .. ':facts', name .. ':v', fact.v, name .. ':d', fact.d)
    redis.call('EXPIRE', skey .. ':facts', cfg.session_ttl_s)
  end
else
  redis.call('DEL', pages)
end
redis.call('HSET', skey, 'owner', owner)
redis.call('HSETNX', skey, 'updated', given.updated)
redis.call('EXPIRE', skey, cfg.session_ttl_s)
redis.call('ZADD', P .. 'sessions', 'NX', given.updated, sid)
redis.call('ZREMRANGEBYRANK', P .. 'sessions', 0, -10001)

-- True if this state has not heard of the run: then it died with the state that held it.
local function is_lost(run)
  return redis.call('EXISTS', P .. 'run:' .. run) == 0
end

local function tell(lost)
  for _, e in ipairs(lost.entries) do append_log(cfg, sid, e.t, lost.run, e.d) end
  for _, e in ipairs(lost.events) do emit(cfg, sid, e.t, lost.run, e.d) end
  for _, name in ipairs(lost.replies) do push_reply(cfg, name, lost.reply) end
  redis.call('HSET', P .. 'run:' .. lost.run, 'state', 'ended', 'lost', 1, 'session', sid, 'principal', owner, 'seq', 0,
    'created', lost.created, 'started', lost.started, 'ended', at, 'reply', lost.reply)
  redis.call('EXPIRE', P .. 'run:' .. lost.run, cfg.run_ttl_s)
  redis.call('ZADD', P .. 'runs:recent', lost.created, lost.run)
  redis.call('ZREMRANGEBYRANK', P .. 'runs:recent', 0, -1001)
  redis.call('ZADD', P .. 'archive', at, lost.run)
end

local told = {}
for _, lost in ipairs(given.lost) do
  if is_lost(lost.run) then tell(lost) end
  if redis.call('HGET', P .. 'run:' .. lost.run, 'lost') then told[#told + 1] = lost.run end
end
return told
