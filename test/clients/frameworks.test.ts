import { HumanMessage, type ToolMessage } from '@langchain/core/messages'
import { tool as langChainTool } from '@langchain/core/tools'
import { ChatOpenAICompletions, OpenAIEmbeddings } from '@langchain/openai'
import { OpenAI as LlamaOpenAi, OpenAIEmbedding } from '@llamaindex/openai'
import { Agent, tool as agentTool, OpenAIProvider, Runner } from '@openai/agents'
import test from 'ava'
import { Document, tool as llamaTool, MetadataMode, Settings, VectorStoreIndex } from 'llamaindex'
import { z } from 'zod'
import { baseUrl, liveKey, requestsTo } from './support/environment.ts'
import { image, imageUri, marker, targets } from './support/samples.ts'

const question = 'What is the weather in Oslo and Rome?'
const city = z.object({ city: z.string() })
const person = z.object({ name: z.string(), age: z.number() })

for (const { model, provider } of targets) {
  const configuration = { baseURL: baseUrl }
  // `ChatOpenAI` takes the Responses API for models that it knows by name.
  const langChain = new ChatOpenAICompletions({ model, apiKey: liveKey, configuration, maxRetries: 0 })

  test.serial(`200 @langchain/openai, ${provider}: a message, whole and streamed, with usage`, async t => {
    const text = `Hello ${marker()}`
    const whole = await langChain.invoke(text)
    t.is(whole.content, `Echo: ${text}`)
    t.is(whole.response_metadata.finish_reason, 'stop')
    t.true(whole.usage_metadata!.input_tokens > 0)
    let streamed = ''
    let tokens = 0
    for await (const chunk of await langChain.stream(text)) {
      streamed += chunk.text
      tokens += chunk.usage_metadata?.total_tokens ?? 0
    }
    t.is(streamed, `Echo: ${text}`)
    t.is(tokens, whole.usage_metadata!.total_tokens)
  })

  test.serial(
    `200 @langchain/openai, ${provider}: two tools are called, whole and streamed, and an answer comes`,
    async t => {
      const result = marker()
      const weather = langChainTool(async ({ city }) => `sunny in ${city} ${result}`, { name: 'weather', schema: city })
      const bound = langChain.bindTools([weather])
      const answer = await bound.invoke(question)
      let gathered: Awaited<ReturnType<typeof bound.invoke>> | undefined
      for await (const chunk of await bound.stream(question)) gathered = gathered ? gathered.concat(chunk) : chunk
      for (const { tool_calls: calls } of [answer, gathered!])
        t.deepEqual(calls!.map(({ args }) => args.city).sort(), ['Oslo', 'Rome'])
      const results = await Promise.all(answer.tool_calls!.map(call => weather.invoke(call) as Promise<ToolMessage>))
      const final = await bound.invoke([new HumanMessage(question), answer, ...results])
      t.regex(final.text, /\w/)
      t.is((await requestsTo(provider, result)).length, 1)
    },
  )

  test.serial(`200 @langchain/openai, ${provider}: structured output and an image`, async t => {
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

  const llama = new LlamaOpenAi({ model, apiKey: liveKey, baseURL: baseUrl, maxRetries: 0 })

  test.serial(`200 llamaindex, ${provider}: a message, whole and streamed`, async t => {
    const content = `Hello ${marker()}`
    const messages = [{ role: 'user' as const, content }]
    t.is((await llama.chat({ messages })).message.content, `Echo: ${content}`)
    let streamed = ''
    for await (const { delta } of await llama.chat({ messages, stream: true })) streamed += delta
    t.is(streamed, `Echo: ${content}`)
  })

  test.serial(`200 llamaindex, ${provider}: tools are run and an answer comes`, async t => {
    const asked: string[] = []
    const weather = llamaTool({
      name: 'weather',
      description: 'The weather in a city',
      parameters: city,
      execute: ({ city }) => {
        asked.push(city)
        return `sunny in ${city}`
      },
    })
    const messages = [{ role: 'user' as const, content: question }]
    const { newMessages } = await llama.exec({ messages, tools: [weather] })
    t.deepEqual(asked.sort(), ['Oslo', 'Rome'])
    const answer = await llama.chat({ messages: [...messages, ...newMessages], tools: [weather] })
    t.regex(String(answer.message.content), /\w/)
  })

  const runner = new Runner({
    modelProvider: new OpenAIProvider({ apiKey: liveKey, baseURL: baseUrl, useResponses: false }),
    tracingDisabled: true,
  })

  for (const stream of [false, true])
    test.serial(
      `200 @openai/agents, ${provider}: an agent with a tool answers${stream ? ' in a stream' : ''}`,
      async t => {
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
      },
    )

  test.serial(`200 @openai/agents, ${provider}: an agent with an output type, and one that hands over`, async t => {
    const typed = new Agent({ name: 'Clerk', instructions: 'Be brief.', model, outputType: person })
    t.is(typeof (await runner.run(typed, 'Who is it?')).finalOutput!.age, 'number')
    const text = `Hello ${marker()}`
    t.is((await runner.run(new Agent({ name: 'Echo', model }), text)).finalOutput, `Echo: ${text}`)
  })
}

test.serial('200 @langchain/openai: embeddings', async t => {
  const embeddings = new OpenAIEmbeddings({
    model: 'text-embedding-3-small',
    dimensions: 8,
    apiKey: liveKey,
    configuration: { baseURL: baseUrl },
  })
  t.deepEqual(
    (await embeddings.embedDocuments(['one', 'two'])).map(vector => vector.length),
    [8, 8],
  )
})

test.serial('200 llamaindex: an index of documents is made and asked', async t => {
  const model = new OpenAIEmbedding({ model: 'text-embedding-3-small', apiKey: liveKey, baseURL: baseUrl })
  const llm = new LlamaOpenAi({ model: 'gpt-5.6-luna', apiKey: liveKey, baseURL: baseUrl })
  const word = marker()
  await Settings.withEmbedModel(model, () =>
    Settings.withLLM(llm, async () => {
      const index = await VectorStoreIndex.fromDocuments([new Document({ text: `The lighthouse is called ${word}.` })])
      const { message, sourceNodes } = await index.asQueryEngine().query({ query: 'What is the lighthouse called?' })
      t.true(String(message.content).includes(word))
      t.true(sourceNodes![0]!.node.getContent(MetadataMode.NONE).includes(word))
    }),
  )
})
