-- tell: public events that are not part of the log, of any sessions, in the order given.
-- keys: session:<sid>:events
-- ARGV: 1 cfg JSON, 2 four lines for each event: sid, type, run, data JSON (which has no line breaks of its own)
-- returns: how many
local kept, count = cjson.decode(ARGV[1]).events_kept, 0
for sid, kind, run, data in string.gmatch(ARGV[2], '([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n') do
  local key = P .. 'session:' .. sid .. ':events'
  redis.call('XADD', key, 'MAXLEN', '~', kept, '*', 'type', kind, 'run', run, 'data', data)
  count = count + 1
end
return count
