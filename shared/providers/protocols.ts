import { akool } from './akool/protocol.ts'
import { anthropic } from './anthropic/protocol.ts'
import type { Protocol } from './contract.ts'
import { deepgram } from './deepgram/protocol.ts'
import { elevenlabs } from './elevenlabs/protocol.ts'
import { fal } from './fal/protocol.ts'
import { gemini } from './gemini/protocol.ts'
import { heygen } from './heygen/protocol.ts'
import { kling } from './kling/protocol.ts'
import { magicHour } from './magic_hour/protocol.ts'
import { meshy } from './meshy/protocol.ts'
import { openai } from './openai/protocol.ts'
import { replicate } from './replicate/protocol.ts'
import { runway } from './runway/protocol.ts'
import { sync } from './sync/protocol.ts'

/** The protocols spoken here, by the name that provider rows use. */
export const protocols: Readonly<Record<string, Protocol>> = {
  openai,
  anthropic,
  gemini,
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
}
