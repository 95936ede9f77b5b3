#!lua flags=allow-oom
-- take_over: gives a run whose owner is gone (or that this process itself lost sight of) a new lease.
-- keys: run:<rid>; coordinator:<cid>; runs:active; session:<sid>:events
-- ARGV: 1 run, 2 cid, 3 nonce, 4 cfg JSON, 5 '1' if the runs of owners without heartbeat may be taken
-- returns: {session, principal, seq, ms that its clock stood still}, or nothing if the run is not to be had
local run, cid, nonce, cfg = ARGV[1], ARGV[2], ARGV[3], cjson.decode(ARGV[4])
local rkey = P .. 'run:' .. run
if redis.call('EXISTS', P .. 'coordinator:' .. cid) == 0 then
  return redis.error_reply('LEASE no heartbeat')
end
local r = redis.call('HMGET', rkey, 'state', 'owner', 'session', 'principal', 'seq', 'nonce', 'waited', 'expected')
if r[1] ~= 'active' then
  redis.call('SREM', P .. 'runs:active', run)
  return nil
end
if r[6] == nonce and r[2] == cid then return { r[3], r[4], r[5], r[7] or '0' } end
if r[2] ~= '' and r[2] ~= cid
  and (ARGV[5] ~= '1' or redis.call('EXISTS', P .. 'coordinator:' .. r[2]) == 1) then
  return nil
end
redis.call('HSET', rkey, 'owner', cid, 'nonce', nonce)
if redis.call('HDEL', rkey, 'expected') == 0 then
  emit(cfg, r[3], 'notice', run, '{"code":"taken_over","text":"another coordinator goes on with this run"}')
end
return { r[3], r[4], r[5], r[7] or '0' }
