-- What can be done to a TrainSweep. No field that lies in Git is touched, or self-healing would undo it at once.
local succeeded = nil
local finished = false
for _, condition in ipairs(obj.status ~= nil and obj.status.conditions or {}) do
  if condition.type == "Succeeded" then
    succeeded = condition
  elseif condition.type == "Finished" then
    finished = condition.status == "True"
  end
end

local suspended = obj.spec.suspend == true
local waits = succeeded ~= nil and succeeded.reason == "Retrying"

return {
  -- The training stops at its next checkpoint, which is proven; the cluster goes, the finished trials stay.
  suspend = { disabled = finished or suspended, displayName = "Suspend", iconClass = "fa fa-fw fa-pause" },
  resume = { disabled = finished or not suspended, displayName = "Resume", iconClass = "fa fa-fw fa-play" },
  -- A terminal sweep never runs again: delete it, and what lies in Git is made anew and goes on where it was.
  retry = { disabled = not waits or suspended, displayName = "Start the next attempt now", iconClass = "fa fa-fw fa-redo" },
}
