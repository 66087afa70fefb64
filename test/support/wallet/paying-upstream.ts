import { Emulator } from '../../emulators/emulator.ts'

/**
 * An OpenAI upstream whose answers cost as much as the `max_tokens` of the request: the two tokens of a prompt cost what one of
 * the output does.
 */
export function startPayingUpstream(): Promise<Emulator> {
  return Emulator.start((request, response) => {
    const completion_tokens = Number(request.body.max_completion_tokens ?? request.body.max_tokens)
    const usage = { prompt_tokens: 2, completion_tokens: completion_tokens - 1, total_tokens: completion_tokens + 1 }
    const message = { role: 'assistant', content: ' a'.repeat(completion_tokens), refusal: null }
    const choices = [{ index: 0, message, finish_reason: 'stop', logprobs: null }]
    const answer = {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1_795_132_800,
      model: 'upstream-coin',
      choices,
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ...answer, usage }))
  })
}
