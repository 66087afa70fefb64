import type { ModelMessage } from 'ai'
import test from 'ava'
import { z } from 'zod'
import { aiSdk, chatModels, generationNames } from './support/ai-sdk.ts'
import { liveKey, requestsTo, testKey } from './support/environment.ts'
import { image, marker, targets } from './support/samples.ts'

for (const generation of generationNames) {
  const sdk = aiSdk(generation, liveKey)
  const { generateText, streamText, stepCountIs, tool, Output } = sdk.ai

  for (const [packageName, modelOf] of Object.entries(chatModels)) {
    for (const { model: name, provider } of targets) {
      const model = modelOf(sdk, name)
      const title = (what: string) => `200 ${generation} with ${packageName}, ${provider}: ${what}`
      const weather = (result: string, asked: string[]) =>
        tool({
          description: 'The weather in a city',
          inputSchema: z.object({ city: z.string() }),
          execute: async ({ city }) => {
            asked.push(city)
            return `sunny in ${city} ${result}`
          },
        })

      test.serial(title('text with usage'), async t => {
        const prompt = `Hello ${marker()}`
        const { text, finishReason, usage, providerMetadata } = await generateText({ model, prompt, maxRetries: 0 })
        t.is(text, `Echo: ${prompt}`)
        t.is(finishReason, 'stop')
        t.true(usage.inputTokens! > 0 && usage.outputTokens! > 0)
        t.is(usage.totalTokens, usage.inputTokens! + usage.outputTokens!)
        t.is((await requestsTo(provider, prompt)).length, 1)
        if (packageName === 'openrouter') t.true((providerMetadata!.openrouter!.usage as { cost: number }).cost > 0)
      })

      test.serial(title('text streamed'), async t => {
        const prompt = `Hello ${marker()}`
        const result = streamText({ model, prompt, maxRetries: 0 })
        const pieces: string[] = []
        for await (const piece of result.textStream) pieces.push(piece)
        t.is(pieces.join(''), `Echo: ${prompt}`)
        t.is(await result.finishReason, 'stop')
        const usage = await result.usage
        t.true(usage.inputTokens! > 0 && usage.outputTokens! > 0)
      })

      test.serial(title('two tools are called and an answer comes'), async t => {
        const [result, asked] = [marker(), [] as string[]]
        const { steps, text } = await generateText({
          model,
          prompt: 'What is the weather in Oslo and Rome?',
          tools: { weather: weather(result, asked) },
          stopWhen: stepCountIs(3),
          maxRetries: 0,
        })
        t.is(steps.length, 2)
        t.is(steps[0]!.finishReason, 'tool-calls')
        t.deepEqual(asked.sort(), ['Oslo', 'Rome'])
        t.regex(text, /\w/)
        const [request] = await requestsTo(provider, result)
        t.true(request!.raw.includes(`sunny in Oslo ${result}`) && request!.raw.includes(`sunny in Rome ${result}`))
      })

      test.serial(title('two tools are called in a stream and an answer comes'), async t => {
        const [result, asked] = [marker(), [] as string[]]
        const streamed = streamText({
          model,
          prompt: 'What is the weather in Oslo and Rome?',
          tools: { weather: weather(result, asked) },
          stopWhen: stepCountIs(3),
          maxRetries: 0,
        })
        t.regex(await streamed.text, /\w/)
        t.is((await streamed.steps).length, 2)
        t.deepEqual(asked.sort(), ['Oslo', 'Rome'])
        t.is((await requestsTo(provider, result)).length, 1)
      })

      test.serial(title('structured output, whole and streamed'), async t => {
        const output = Output.object({ schema: z.object({ name: z.string(), age: z.number() }) })
        // For models that it does not know, Anthropic's package would use a tool.
        const providerOptions = { anthropic: { structuredOutputMode: 'outputFormat' } }
        const request = { model, prompt: 'Who is it?', output, providerOptions, maxRetries: 0 }
        const whole = await generateText(request)
        t.is(typeof whole.output.age, 'number')
        const streamed = streamText(request)
        t.is(typeof (await streamed.output).name, 'string')
      })

      test.serial(title('an image in a message'), async t => {
        const text = `What is this? ${marker()}`
        const messages: ModelMessage[] = [
          {
            role: 'user',
            content: [
              { type: 'text', text },
              { type: 'file', mediaType: 'image/png', data: image },
            ],
          },
        ]
        const answer = await generateText({ model, messages, maxRetries: 0 })
        t.true(answer.text.includes(text))
        t.true((await requestsTo(provider, text))[0]!.raw.includes(image.toString('base64')))
      })
    }

    test.serial(`200 ${generation} with ${packageName}: the sandbox answers, streams and calls tools`, async t => {
      const sandbox = aiSdk(generation, testKey)
      const model = modelOf(sandbox, 'auto')
      t.is((await generateText({ model, prompt: 'Hello', maxRetries: 0 })).text, 'Hello')
      t.is(await streamText({ model, prompt: 'Hello', maxRetries: 0 }).text, 'Hello')
      const cities: string[] = []
      const look = tool({ inputSchema: z.object({ city: z.string() }), execute: ({ city }) => void cities.push(city) })
      await generateText({ model, prompt: 'sandbox:tool', tools: { look }, maxRetries: 0 })
      t.is(cities.length, 1)
    })
  }
}
