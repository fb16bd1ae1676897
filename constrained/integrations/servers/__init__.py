"""Serving engines: what vLLM and SGLang both ask for, such as constraints of requests and masks on a device."""
