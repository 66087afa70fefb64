import { HumanMessage, type ToolMessage } from '@langchain/core/messages'
import { tool as langChainTool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { Agent, tool as agentTool, OpenAIProvider, Runner } from '@openai/agents'
import test from 'ava'
import { z } from 'zod'
import { baseUrl, liveKey, requestsTo } from './support/environment.ts'
import { image, imageUri, marker, targets } from './support/samples.ts'

/** The frameworks that use the Responses API, by default or when told to. */
const question = 'What is the weather in Oslo and Rome?'
const city = z.object({ city: z.string() })
const person = z.object({ name: z.string(), age: z.number() })

for (const { model, provider } of targets) {
  const langChain = new ChatOpenAI({
    model,
    apiKey: liveKey,
    configuration: { baseURL: baseUrl },
    maxRetries: 0,
    useResponsesApi: true,
    // Otherwise it refers to items as stored ones.
    zdrEnabled: true,
  })

  test.serial(
    `200 @langchain/openai with Responses, ${provider}: a message, whole and streamed, with usage`,
    async t => {
      const text = `Hello ${marker()}`
      const whole = await langChain.invoke(text)
      t.is(whole.text, `Echo: ${text}`)
      t.true(whole.usage_metadata!.input_tokens > 0)
      let streamed = ''
      let tokens = 0
      for await (const chunk of await langChain.stream(text)) {
        streamed += chunk.text
        tokens += chunk.usage_metadata?.total_tokens ?? 0
      }
      t.is(streamed, `Echo: ${text}`)
      t.is(tokens, whole.usage_metadata!.total_tokens)
      t.true((await requestsTo(provider, text)).length === 2)
    },
  )

  test.serial(
    `200 @langchain/openai with Responses, ${provider}: two tools are called, whole and streamed, and an answer comes`,
    async t => {
      const result = marker()
      const weather = langChainTool(async ({ city }) => `sunny in ${city} ${result}`, { name: 'weather', schema: city })
      const bound = langChain.bindTools([weather])
      const whole = await bound.invoke(question)
      let gathered: Awaited<ReturnType<typeof bound.invoke>> | undefined
      for await (const chunk of await bound.stream(question)) gathered = gathered ? gathered.concat(chunk) : chunk
      for (const answer of [whole, gathered!]) {
        const calls = answer.tool_calls!
        t.deepEqual(calls.map(({ args }) => args.city).sort(), ['Oslo', 'Rome'])
        const results = await Promise.all(calls.map(call => weather.invoke(call) as Promise<ToolMessage>))
        const final = await bound.invoke([new HumanMessage(question), answer, ...results])
        t.regex(final.text, /\w/)
      }
      t.is((await requestsTo(provider, result)).length, 2)
    },
  )

  test.serial(`200 @langchain/openai with Responses, ${provider}: structured output and an image`, async t => {
    const structured = langChain.withStructuredOutput(person, { name: 'person', method: 'jsonSchema' })
    t.is(typeof (await structured.invoke('Who is it?')).age, 'number')
    const text = `What is this? ${marker()}`
    const content = [
      { type: 'text' as const, text },
      { type: 'image_url' as const, image_url: { url: imageUri } },
    ]
    t.true((await langChain.invoke([new HumanMessage({ content })])).text.includes(text))
    t.true((await requestsTo(provider, text))[0]!.raw.includes(image.toString('base64')))
  })

  test.serial(
    `200 @langchain/openai with Responses, ${provider}: a stream that breaks off is not taken for whole`,
    async t => {
      await t.throwsAsync(
        async () => {
          for await (const _chunk of await langChain.stream('upstream:cut'));
        },
        { message: /broke off/ },
      )
    },
  )

  const runner = new Runner({
    modelProvider: new OpenAIProvider({ apiKey: liveKey, baseURL: baseUrl }),
    tracingDisabled: true,
  })

  for (const stream of [false, true]) {
    const how = stream ? ' in a stream' : ''
    test.serial(`200 @openai/agents, ${provider}: an agent with a tool responds${how}`, async t => {
      const result = marker()
      const asked: string[] = []
      const weather = agentTool({
        name: 'weather',
        description: 'The weather in a city',
        parameters: city,
        execute: async ({ city }) => {
          asked.push(city)
          return `sunny in ${city} ${result}`
        },
      })
      const agent = new Agent({ name: 'Forecaster', instructions: 'Be brief.', model, tools: [weather] })
      const run = stream ? await runner.run(agent, question, { stream }) : await runner.run(agent, question)
      if ('completed' in run) await run.completed
      t.regex(String(run.finalOutput), /\w/)
      t.deepEqual(asked.sort(), ['Oslo', 'Rome'])
      t.is((await requestsTo(provider, result)).length, 1)
      t.true(run.state.usage.totalTokens > 0)
    })

    test.serial(`200 @openai/agents, ${provider}: an agent hands over to another${how}`, async t => {
      const word = marker()
      const forecaster = new Agent({ name: 'Forecaster', instructions: `Be brief, ${word}.`, model })
      const triage = Agent.create({ name: 'Triage', instructions: 'Hand over.', model, handoffs: [forecaster] })
      const asked = 'What is the weather in Oslo?'
      const run = stream ? await runner.run(triage, asked, { stream }) : await runner.run(triage, asked)
      if ('completed' in run) await run.completed
      t.is(run.lastAgent!.name, 'Forecaster')
      t.regex(String(run.finalOutput), /\w/)
      t.is((await requestsTo(provider, word)).length, 1)
    })
  }

  test.serial(`200 @openai/agents, ${provider}: an output type, and a conversation that goes on`, async t => {
    const typed = new Agent({ name: 'Clerk', instructions: 'Be brief.', model, outputType: person })
    t.is(typeof (await runner.run(typed, 'Who is it?')).finalOutput!.age, 'number')
    const echo = new Agent({ name: 'Echo', model })
    const text = `Hello ${marker()}`
    const first = await runner.run(echo, text)
    t.is(first.finalOutput, `Echo: ${text}`)
    const second = await runner.run(echo, [...first.history, { role: 'user', content: 'And now?' }])
    t.is(second.finalOutput, 'Echo: And now?')
    t.is((await requestsTo(provider, text)).length, 2)
  })
}
