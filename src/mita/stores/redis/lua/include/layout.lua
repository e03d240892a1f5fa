-- How a job is laid out when it is taken in (see include/record).

local HEAD = '>BBI8BI8BBB' -- of a fixed half: array of 15, created, due, priority, and the length of the handle that follows
local NEWEST = '>I8I8' -- what a queue remembers of its newest job: its age, and when it came
