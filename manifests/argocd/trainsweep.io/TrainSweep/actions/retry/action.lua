-- Ends the pause before the next attempt; the operator looks at the time, so an old annotation has no effect.
local os = require("os")
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["trainsweep.io/retry-now"] = os.date("!%Y-%m-%dT%XZ")
return obj
