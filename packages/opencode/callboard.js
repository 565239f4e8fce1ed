// Adds the server to opencode's settings, unless they have one of this name.
export const Callboard = async () => ({
  config: async (config) => {
    config.mcp ??= {}
    config.mcp.callboard ??= { type: "local", command: ["callboard","mcp"], enabled: true }
  },
})
