#!lua flags=allow-oom
-- append: one change of a run by its owner: log entries, ledger rows, node ends, events, mail read.
-- keys: run:<rid>, :ledger, :mail; session:<sid>:log, :events, :waits; coordinator:<cid>;
--       run:<rid>, :mail; runs:active; runs:parked; runs:recent; coordinators; coordinator:<cid>; hints:<cid>
-- ARGV: 1 run, 2 cid, 3 nonce, 4 sequence, 5 body JSON, 6 cfg JSON
-- returns: JSON array of log ids; the stored one if this sequence was applied before
local run, cid, nonce, seq = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local rkey = P .. 'run:' .. run
if not holds(run, cid, nonce) then
  return redis.error_reply('LEASE ' .. run)
end
local stored = redis.call('HMGET', rkey, 'seq', 'outcome', 'session')
if seq == tonumber(stored[1]) then return stored[2] end
if seq ~= tonumber(stored[1]) + 1 then
  return redis.error_reply('SEQUENCE expected ' .. (tonumber(stored[1]) + 1))
end
local body, cfg = cjson.decode(ARGV[5]), cjson.decode(ARGV[6])
local ids = apply_body(cfg, stored[3], run, body, now_ms())
local outcome = '["' .. table.concat(ids, '","') .. '"]'
if #ids == 0 then outcome = '[]' end
redis.call('HSET', rkey, 'seq', seq, 'outcome', outcome)
return outcome
