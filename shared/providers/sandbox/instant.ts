import type { Protocol } from '../contract.ts'
import { png, wav } from './media.ts'

/** The media that test keys get while they wait. */
export const instant: NonNullable<Protocol['instant']> = {
  image: {
    make: async ({ input }) => ({
      images: Array.from({ length: input.n }, () => ({ bytes: png(256), revisedPrompt: null })),
      usage: null,
    }),
  },
  speech: {
    make: async ({ input }) => ({ sound: { bytes: wav(input.text.length * 60) }, usage: () => null }),
  },
  transcription: {
    make: async ({ input, sources }) => {
      const text = `${sources.get('audio_url')!.filename}, ${input.seconds} s`
      return { deltas: null, transcript: () => ({ text, language: 'en', segments: null, words: null, usage: null }) }
    },
  },
}
