import { anthropic } from './anthropic/protocol.ts'
import type { Protocol } from './contract.ts'
import { gemini } from './gemini/protocol.ts'
import { openai } from './openai/protocol.ts'

/** The protocols spoken here, by the name that provider rows use. */
export const protocols: Readonly<Record<string, Protocol>> = { openai, anthropic, gemini }
