#!lua flags=allow-oom
-- finish: the end of a run: last entries, event, replies, slot, next message, follow-ups, archive due. The run of a
-- subagent has no slot; its end is the end of the node that waits for it.
-- keys: run:<rid>, :replies, :mail, :ledger; session:<sid>, :queue, :log, :events, :waits, :facts, :todo, :settings; reply:*; runnable;
--       runnable:<principal>; turns; waiting:<principal>; runs:active; runs:active:<principal>; runs:parked; runs:recent; archive; coordinator:<cid>; coordinators; hints:<cid>
-- ARGV: 1 run, 2 cid, 3 nonce, 4 sequence, 5 body JSON (as append, with reply, force, follow_ups), 6 cfg JSON
-- returns: 'ended', or 'mail' (nothing was done: mail arrived that must be read first)
local run, cid, nonce, seq = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local rkey = P .. 'run:' .. run
local stored = redis.call('HMGET', rkey, 'seq', 'session', 'state', 'owner', 'nonce', 'principal', 'parent', 'node')
if stored[3] == 'ended' and tonumber(stored[1]) == seq and stored[4] == cid and stored[5] == nonce then
  return 'ended'
end
if not holds(run, cid, nonce) then
  return redis.error_reply('LEASE ' .. run)
end
if seq ~= tonumber(stored[1]) + 1 then
  return redis.error_reply('SEQUENCE expected ' .. (tonumber(stored[1]) + 1))
end
local body, cfg = cjson.decode(ARGV[5]), cjson.decode(ARGV[6])
if not body.force and redis.call('LLEN', rkey .. ':mail') > (body.mail_read or 0) then
  return 'mail'
end
local sid, at = stored[2], now_ms()
apply_body(cfg, sid, run, body, at)
redis.call('HSET', rkey, 'state', 'ended', 'seq', seq, 'reply', body.reply, 'ended', at)
if body.up then
  local parent, up = stored[7], body.up
  settle(cfg, sid, parent, stored[8], up.state, up.result, up.log, up.event, at)
  wake(parent, at)
  hint(redis.call('HGET', P .. 'run:' .. parent, 'owner'), 'node', parent, stored[8])
else
  redis.call('HDEL', P .. 'session:' .. sid, 'active')
  redis.call('HSET', P .. 'session:' .. sid, 'updated', at)
  keep_session(cfg, sid)
end
redis.call('SREM', P .. 'runs:active', run)
redis.call('SREM', P .. 'runs:active:' .. stored[6], run)
for _, name in ipairs(redis.call('SMEMBERS', rkey .. ':replies')) do
  push_reply(cfg, name, body.reply)
end
redis.call('DEL', rkey .. ':mail') -- nobody reads it any more
for _, suffix in ipairs({ '', ':replies', ':ledger' }) do
  redis.call('EXPIRE', rkey .. suffix, cfg.run_ttl_s)
end
redis.call('ZADD', P .. 'archive', at, run)
for _, f in ipairs(body.follow_ups or {}) do
  local fkey = P .. 'session:' .. f.session
  local mine = (redis.call('HGET', fkey, 'owner') or stored[6]) == stored[6] -- another user may have taken the name
  if f.must and not mine then -- what the user waits for runs here instead; all else is given up
    f.session, fkey, mine = sid, P .. 'session:' .. sid, true
  end
  if mine and (f.must or redis.call('LLEN', fkey .. ':queue') < cfg.session_queue) then
    redis.call('HSETNX', fkey, 'owner', stored[6])
    redis.call('HSET', P .. 'run:' .. f.run, 'state', 'queued', 'session', f.session, 'principal', stored[6],
      'created', at, 'seq', 0)
    redis.call('ZADD', P .. 'waiting:' .. stored[6], at, f.run)
    redis.call('RPUSH', fkey .. ':queue', f.payload)
    if (redis.call('HGET', fkey, 'active') or '') == '' then keep_session(cfg, f.session) end
    redis.call('EXPIRE', fkey .. ':queue', cfg.session_ttl_s)
    keep_queued(cfg, f.run)
    mark_runnable(f.session, at)
  end
end
mark_runnable(sid, at)
return 'ended'
