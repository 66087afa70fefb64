import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Usage } from '../../base/usage.ts'
import type { InstantKind, WorkKinds } from '../../kinds/index.ts'
import { charactersOf } from '../../kinds/instant.ts'
import type { SoundFormat, SoundOutput } from '../../kinds/sound.ts'
import { tokenizer } from '../../kinds/tokenizer.ts'
import type { InstantAdapter, InstantCall, Protocol } from '../contract.ts'
import { images } from './images.ts'
import { obey } from './magic.ts'
import { soundParts } from './sounds.ts'
import { transcript } from './transcripts.ts'

const charactersPerSecond = 15
const usualSongSeconds = 10
const usualEffectSeconds = 3
const tokensPerSecond = 25

/** The media that test keys get while they wait, at most `firstByteTimeoutMs` long. */
export function createInstant(firstByteTimeoutMs: number): NonNullable<Protocol['instant']> {
  const adapter = <K extends InstantKind>(
    text: (input: WorkKinds[K]['input']) => string,
    make: (call: InstantCall<K>) => Promise<WorkKinds[K]['output']>,
  ): InstantAdapter<K> => ({
    async make(call) {
      await obey(text(call.input), firstByteTimeoutMs, call.signal)
      return make(call)
    },
  })
  return {
    image: adapter<'image'>(({ prompt }) => prompt, images),
    speech: adapter<'speech'>(({ text, instructions }) => `${text}\n${instructions ?? ''}`, speech),
    transcription: adapter<'transcription'>(({ prompt }) => prompt ?? '', transcript),
    music: adapter<'music'>(({ prompt, lyrics }) => `${prompt}\n${lyrics ?? ''}`, ofLength(usualSongSeconds)),
    sfx: adapter<'sfx'>(({ prompt }) => prompt, ofLength(usualEffectSeconds)),
  }
}

/** Sound as long as it is asked for, else as long as usual within the model's limits. */
function ofLength(usualSeconds: number) {
  return async ({ input, target }: InstantCall<'music'> | InstantCall<'sfx'>): Promise<SoundOutput> => {
    const { min_duration_s: least = 0, max_duration_s: most = usualSeconds } = target.model.kind ?? {}
    return sound(input.format, input.durationS ?? Math.max(Number(least), Math.min(Number(most), usualSeconds)))
  }
}

async function speech({ input: { text, instructions, speed, format } }: InstantCall<'speech'>): Promise<SoundOutput> {
  const seconds = charactersOf(text) / charactersPerSecond / speed
  const prompt = (await tokenizer()).count(text + (instructions ?? ''))
  const spoken = Math.ceil(seconds * tokensPerSecond)
  return sound(format, seconds, {
    prompt_tokens: prompt,
    completion_tokens: spoken,
    total_tokens: prompt + spoken,
    completion_tokens_details: { audio_tokens: spoken },
  })
}

function sound(format: SoundFormat, seconds: number, usage: Usage | null = null): SoundOutput {
  return { sound: { stream: oneByOne(soundParts(format, seconds)) }, usage: () => usage }
}

/** One part per turn of the event loop, so that a long sound starves nobody. */
async function* oneByOne(parts: Iterable<Buffer>): AsyncIterable<Uint8Array> {
  for (const part of parts) {
    yield part
    await nextTurn()
  }
}
