-- Stands before every script: hundreds of small arguments would cost their sender more than the script itself, so they
-- travel as one, each ended by a unit separator, and are cut up here.
local packed, ARGV = ARGV[1], {}
for argument in string.gmatch(packed, '([^\31]*)\31') do ARGV[#ARGV + 1] = argument end
