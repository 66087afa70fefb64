import OpenAi4 from 'openai-4'
import OpenAi6 from 'openai-6'
import OpenAi7, { type ClientOptions } from 'openai-7'
import { baseUrl } from './environment.ts'

/** The majors of OpenAI's client in use. What the tests call has the same types in all of them, under different names. */
export const majors = {
  'openai 4': OpenAi4 as unknown as typeof OpenAi7,
  'openai 6': OpenAi6 as unknown as typeof OpenAi7,
  'openai 7': OpenAi7,
}
export type Major = keyof typeof majors
export const majorNames = Object.keys(majors) as Major[]

/** A client that asks once; `options` may have it ask more often. */
export function clientOf(major: Major, apiKey: string, options: ClientOptions = {}): OpenAi7 {
  return new majors[major]({ apiKey, baseURL: baseUrl, maxRetries: 0, ...options })
}

/** The helpers that were in `beta` before they were in every client. */
export function chatHelpers(client: OpenAi7): OpenAi7['chat']['completions'] {
  const { beta } = client as unknown as { beta?: { chat?: OpenAi7['chat'] } }
  return beta?.chat?.completions ?? client.chat.completions
}

/** Counts the requests that a client sends, as its `fetch` option. */
export class Attempts {
  readonly startedMs: number[] = []

  get count(): number {
    return this.startedMs.length
  }

  readonly fetch = (...args: Parameters<typeof fetch>): Promise<Response> => {
    this.startedMs.push(performance.now())
    return fetch(...args)
  }
}
