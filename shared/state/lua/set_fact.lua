-- set_fact: compare-and-set of one shared fact of a session.
-- keys: session:<sid>:facts, :log, :events
-- ARGV: 1 sid, 2 name, 3 row JSON without version ({value, by}), 4 expected version or '', 5 by whom (run), 6 cfg JSON
--       7 operation id: applied twice, it answers the version of the first time, also if others have written since
-- returns: the new version; error CONFLICT with the present version
local sid, name, expected, cfg = ARGV[1], ARGV[2], ARGV[4], cjson.decode(ARGV[6])
local key = P .. 'session:' .. sid .. ':facts'
local row = redis.call('HMGET', key, name .. ':v', name .. ':o')
local version = tonumber(row[1] or '0')
local applied = ' ' .. (row[2] or '') -- of the newest operations, the last one first: ' id=version'
local _, found = string.find(applied, ' ' .. ARGV[7] .. '=', 1, true)
if found then return tonumber(string.match(applied, '^%d+', found + 1)) end
if expected ~= '' and tonumber(expected) ~= version then
  return redis.error_reply('CONFLICT ' .. version)
end
version = version + 1
applied = ARGV[7] .. '=' .. version .. applied
if #applied > 2000 then applied = string.match(string.sub(applied, 1, 2000), '^(.*) ') end -- far more than are repeated
redis.call('HSET', key, name .. ':v', version, name .. ':d', ARGV[3], name .. ':o', applied)
redis.call('EXPIRE', key, cfg.session_ttl_s)
local name_json = cjson.encode(name)
append_log(cfg, sid, 'fact.set', ARGV[5], '{"name":' .. name_json .. ',"version":' .. version .. ',"row":' .. ARGV[3] .. '}')
emit(cfg, sid, 'fact.set', ARGV[5], '{"name":' .. name_json .. ',"version":' .. version .. '}')
return version
