#!lua flags=allow-oom
-- restore_page: adds a page of an archived log to a temporary key, which restore_session makes a session's log.
-- keys: session:<sid>:log, :log:<part>
-- ARGV: 1 sid, 2 part, 3 id of the last entry of the page before ('' for the first), 4 JSON array of
--       {id, t, v, run, d}, 5 cfg JSON
-- returns: 'more', 'known' (the session has a log: there is nothing to rebuild), or 'full' (there is no memory for it)
local sid, part, after, cfg = ARGV[1], ARGV[2], ARGV[3], cjson.decode(ARGV[5])
local key = P .. 'session:' .. sid .. ':log:' .. part
if redis.call('EXISTS', P .. 'session:' .. sid .. ':log') == 1 then
  redis.call('DEL', key)
  return 'known'
end
if memory_percent() >= cfg.memory_percent then return 'full' end
if last_entry(key) ~= after then return 'more' end -- this page is there already
for _, e in ipairs(cjson.decode(ARGV[4])) do
  redis.call('XADD', key, e[1], 't', e[2], 'v', e[3], 'run', e[4], 'd', e[5])
end
redis.call('EXPIRE', key, 600)
return 'more'
