"""Documents → nodes: dialects and forms of keywords, resources and references, checks before anything is compiled."""
