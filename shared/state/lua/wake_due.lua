#!lua flags=allow-oom
-- wake_due: parked runs whose time has come may be taken over again.
-- keys: runs:parked; runs:active; run:<rid>; coordinators; coordinator:<cid>; hints:<cid>
-- ARGV: 1 how many at most
-- returns: how many were woken
local at = now_ms()
local due = redis.call('ZRANGEBYSCORE', P .. 'runs:parked', '-inf', at, 'LIMIT', 0, tonumber(ARGV[1]))
for _, run in ipairs(due) do
  wake(run, at)
  redis.call('ZREM', P .. 'runs:parked', run) -- also what is not parked any more
end
return #due
