-- Writing a command into a check has a scope of its own. A token that was made without `--scopes` has
-- every scope written down, so it gets the new one; a token with a list of its own keeps that list.

UPDATE tokens
SET rights = replace(rights, '"knowledge:write"]', '"knowledge:write","commands:run"]')
WHERE rights LIKE '{"scopes":["tasks:read","tasks:write","knowledge:read","knowledge:write"]%';
