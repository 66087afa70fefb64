import { akool } from './adapters/akool/protocol.ts'
import { anthropic } from './adapters/anthropic/protocol.ts'
import { bedrockMantle } from './adapters/bedrock/mantle.ts'
import { bedrock } from './adapters/bedrock/protocol.ts'
import { cohere } from './adapters/cohere/protocol.ts'
import { deepgram } from './adapters/deepgram/protocol.ts'
import { elevenlabs } from './adapters/elevenlabs/protocol.ts'
import { fal } from './adapters/fal/protocol.ts'
import { gemini } from './adapters/gemini/protocol.ts'
import { heygen } from './adapters/heygen/protocol.ts'
import { kling } from './adapters/kling/protocol.ts'
import { magicHour } from './adapters/magic-hour/protocol.ts'
import { meshy } from './adapters/meshy/protocol.ts'
import { openai } from './adapters/openai/protocol.ts'
import { perplexity } from './adapters/perplexity/protocol.ts'
import { replicate } from './adapters/replicate/protocol.ts'
import { runway } from './adapters/runway/protocol.ts'
import { sync } from './adapters/sync/protocol.ts'
import { vertexAnthropic } from './adapters/vertex/anthropic.ts'
import { vertexOpenAi } from './adapters/vertex/openai.ts'
import { vertex } from './adapters/vertex/protocol.ts'
import type { Protocol } from './contract.ts'

/** The supported protocols, by the name that provider rows use. */
export const protocols: Readonly<Record<string, Protocol>> = {
  openai,
  anthropic,
  gemini,
  bedrock,
  bedrock_mantle: bedrockMantle,
  vertex,
  vertex_anthropic: vertexAnthropic,
  vertex_openai: vertexOpenAi,
  fal,
  replicate,
  kling,
  runway,
  heygen,
  sync,
  magic_hour: magicHour,
  akool,
  meshy,
  elevenlabs,
  deepgram,
  cohere,
  perplexity,
}
