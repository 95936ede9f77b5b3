#!lua flags=allow-oom
-- beat: a heartbeat while memory is full; without one nobody could end what is under way.
-- keys: coordinator:<cid>; coordinators; worker:<wid>; workers
-- ARGV: 1 'coordinator' or 'worker', 2 id, 3 value, 4 lifetime in ms, 5 Unix ms
-- returns: 1
local id, value, ttl, at = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if ARGV[1] == 'coordinator' then
  redis.call('SET', P .. 'coordinator:' .. id, value, 'PX', ttl)
  redis.call('ZADD', P .. 'coordinators', at, id)
else
  redis.call('SET', P .. 'worker:' .. id, value, 'PX', ttl)
  redis.call('ZADD', P .. 'workers', at, id)
end
return 1
