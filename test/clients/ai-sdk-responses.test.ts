import type { ModelMessage } from 'ai'
import test from 'ava'
import { z } from 'zod'
import { aiSdk, generationNames, storingNothing } from './support/ai-sdk.ts'
import { liveKey, requestsTo } from './support/environment.ts'
import { marker, targets } from './support/samples.ts'

/** The default model of `@ai-sdk/openai`, which uses the Responses API, beyond what every package can (ai-sdk-chat). */
const person = z.object({ name: z.string(), age: z.number() })

for (const generation of generationNames) {
  const { ai, openai } = aiSdk(generation, liveKey)
  for (const { model: name, provider } of targets) {
    const model = openai(name)
    const title = (what: string) => `${generation}, ${provider}: ${what}`

    test.serial(title('200, reasoning goes back with the results of tools, whole and streamed'), async t => {
      const [result, asked] = [marker(), [] as string[]]
      const request = {
        model,
        prompt: 'What is the weather in Oslo and Rome?',
        tools: {
          weather: ai.tool({
            inputSchema: z.object({ city: z.string() }),
            execute: ({ city }) => {
              asked.push(city)
              return `sunny in ${city} ${result}`
            },
          }),
        },
        stopWhen: ai.stepCountIs(3),
        maxRetries: 0,
        providerOptions: {
          openai: {
            ...storingNothing.openai,
            reasoningEffort: 'low',
            reasoningSummary: 'auto',
            include: ['reasoning.encrypted_content' as const],
            // For models that it does not know the package would leave the effort out.
            forceReasoning: true,
          },
        },
      }
      const { steps } = await ai.generateText(request)
      const streamed = ai.streamText(request)
      for (const [first, second] of [steps, await streamed.steps]) {
        t.is(first!.finishReason, 'tool-calls')
        t.is(second!.finishReason, 'stop')
        t.regex(second!.text, /\w/)
        t.is(first!.content.filter(({ type }) => type === 'reasoning').length, 1)
      }
      t.deepEqual(asked.toSorted(), ['Oslo', 'Oslo', 'Rome', 'Rome'])
      const seen = await requestsTo(provider, result)
      t.is(seen.length, 2)
      for (const { raw } of seen) t.regex(raw, stateOf[provider])
    })

    test.serial(title('200, an object is generated, whole and streamed'), async t => {
      const request = { model, prompt: 'Who is it?', schema: person, providerOptions: storingNothing, maxRetries: 0 }
      t.is(typeof (await ai.generateObject(request)).object.age, 'number')
      const streamed = ai.streamObject(request)
      let last: Partial<z.infer<typeof person>> = {}
      for await (const partial of streamed.partialObjectStream) last = partial
      t.deepEqual(last, await streamed.object)
      t.is(typeof last.age, 'number')
    })

    test.serial(
      title('400 that names a reference to an item, as the package assumes that items are stored'),
      async t => {
        const first = await ai.generateText({ model, prompt: 'Hello', maxRetries: 0 })
        const messages: ModelMessage[] = [
          { role: 'user', content: 'Hello' },
          ...first.response.messages,
          { role: 'user', content: 'And now?' },
        ]
        const error = await t.throwsAsync(ai.generateText({ model, messages, maxRetries: 0 }))
        t.true(ai.APICallError.isInstance(error) && error.statusCode === 400)
        t.regex(error.message, /not stored/)
        const again = await ai.generateText({ model, messages, providerOptions: storingNothing, maxRetries: 0 })
        t.is(again.text, 'Echo: And now?')
      },
    )
  }
}

/** How the state of the reasoning looks where it began. */
const stateOf = {
  openai: /"encrypted_content":"gAAAAemulated"/,
  anthropic: /"type":"thinking","thinking":"[^"]+","signature":"(?!hg1\.)/,
  gemini: /"thoughtSignature":"(?!hg1\.)/,
}
