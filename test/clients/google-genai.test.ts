import { GoogleGenAI } from '@google/genai'
import { HumanMessage, type ToolMessage } from '@langchain/core/messages'
import { tool as langChainTool } from '@langchain/core/tools'
import { ChatGoogleGenerativeAI, GoogleGenerativeAIEmbeddings } from '@langchain/google-genai'
import test from 'ava'
import { z } from 'zod'
import { liveKey, origin, requestsTo } from './support/environment.ts'
import { image, imageUri, marker, person, targets, weather } from './support/samples.ts'

const question = 'What is the weather in Oslo and Rome?'
const ai = new GoogleGenAI({ apiKey: liveKey, httpOptions: { baseUrl: origin } })
const embeddingModels = ['gemini-embedding-001', 'text-embedding-3-small']

for (const { model, provider } of targets) {
  test.serial(`200 @google/genai, ${provider}: text, whole and streamed, and its tokens`, async t => {
    const contents = `Hello ${marker()}`
    const whole = await ai.models.generateContent({ model, contents })
    t.is(whole.text, `Echo: ${contents}`)
    t.is(whole.candidates![0]!.finishReason as string, 'STOP')
    let streamed = ''
    let tokens = 0
    for await (const { text, usageMetadata } of await ai.models.generateContentStream({ model, contents })) {
      streamed += text ?? ''
      tokens = usageMetadata?.totalTokenCount ?? tokens
    }
    t.is(streamed, `Echo: ${contents}`)
    t.is(tokens, whole.usageMetadata!.totalTokenCount!)
    t.true((await ai.models.countTokens({ model, contents })).totalTokens! > 0)
  })

  test.serial(`200 @google/genai, ${provider}: two functions are called in a chat, and an answer comes`, async t => {
    const result = marker()
    const { name, description, parameters: parametersJsonSchema } = weather
    const chat = ai.chats.create({
      model,
      config: { tools: [{ functionDeclarations: [{ name, description, parametersJsonSchema }] }] },
    })
    const { functionCalls: calls = [] } = await chat.sendMessage({ message: question })
    t.deepEqual(calls.map(({ args }) => args!.city).sort(), ['Oslo', 'Rome'])
    const message = calls.map(({ id, name, args }) => {
      return { functionResponse: { id, name, response: { output: `sunny in ${args!.city} ${result}` } } }
    })
    let answer = ''
    for await (const { text } of await chat.sendMessageStream({ message })) answer += text ?? ''
    t.regex(answer, /\w/)
    t.is((await requestsTo(provider, result)).length, 1)
  })

  test.serial(`200 @google/genai, ${provider}: structured output and an image`, async t => {
    const config = { responseMimeType: 'application/json', responseJsonSchema: person }
    const answer = await ai.models.generateContent({ model, contents: 'Who is it?', config })
    t.is(typeof JSON.parse(answer.text!).age, 'number')
    const text = `What is this? ${marker()}`
    const inlineData = { mimeType: 'image/png', data: image.toString('base64') }
    t.true((await ai.models.generateContent({ model, contents: [{ inlineData }, { text }] })).text!.includes(text))
    t.true((await requestsTo(provider, text))[0]!.raw.includes(inlineData.data))
  })

  const langChain = new ChatGoogleGenerativeAI({ model, apiKey: liveKey, baseUrl: origin, maxRetries: 0 })

  test.serial(`200 @langchain/google-genai, ${provider}: a message, whole and streamed, with usage`, async t => {
    const text = `Hello ${marker()}`
    const whole = await langChain.invoke(text)
    t.is(whole.text, `Echo: ${text}`)
    let gathered: typeof whole | undefined
    for await (const chunk of await langChain.stream(text)) gathered = gathered ? gathered.concat(chunk) : chunk
    t.is(gathered!.text, `Echo: ${text}`)
    t.is(gathered!.usage_metadata!.total_tokens, whole.usage_metadata!.total_tokens)
  })

  test.serial(
    `200 @langchain/google-genai, ${provider}: tools are called, whole and streamed, and an answer comes`,
    async t => {
      // It sends each result in a turn of its own: langchain-ai/langchainjs#10341.
      const result = marker()
      const weather = langChainTool(async ({ city }) => `sunny in ${city} ${result}`, {
        name: 'weather',
        schema: z.object({ city: z.string() }),
      })
      const bound = langChain.bindTools([weather])
      const answer = await bound.invoke(question)
      let gathered: typeof answer | undefined
      for await (const chunk of await bound.stream(question)) gathered = gathered ? gathered.concat(chunk) : chunk
      for (const { tool_calls: calls } of [answer, gathered!])
        t.deepEqual(calls!.map(({ args }) => args.city).sort(), ['Oslo', 'Rome'])
      const results = await Promise.all(answer.tool_calls!.map(call => weather.invoke(call) as Promise<ToolMessage>))
      t.regex((await bound.invoke([new HumanMessage(question), answer, ...results])).text, /\w/)
      t.is((await requestsTo(provider, result)).length, 1)
    },
  )

  test.serial(`200 @langchain/google-genai, ${provider}: structured output, and an image at Gemini`, async t => {
    const schema = z.object({ name: z.string(), age: z.number() })
    t.is(typeof (await langChain.withStructuredOutput(schema).invoke('Who is it?')).age, 'number')
    // It sends images to models that it knows as Gemini's by their names.
    if (provider !== 'gemini') return
    const text = `What is this? ${marker()}`
    const content = [
      { type: 'text' as const, text },
      { type: 'image_url' as const, image_url: { url: imageUri } },
    ]
    t.true((await langChain.invoke([new HumanMessage({ content })])).text.includes(text))
    t.true((await requestsTo(provider, text))[0]!.raw.includes(image.toString('base64')))
  })
}

for (const model of embeddingModels)
  test.serial(`200 @google/genai and @langchain/google-genai, ${model}: embeddings`, async t => {
    const { embeddings } = await ai.models.embedContent({ model, contents: ['Hello', 'World'] })
    t.is(embeddings!.length, 2)
    t.true(embeddings![0]!.values!.length > 0)
    const langChain = new GoogleGenerativeAIEmbeddings({ model, apiKey: liveKey, baseUrl: origin, maxRetries: 0 })
    t.true((await langChain.embedQuery('Hello')).length > 0)
    t.is((await langChain.embedDocuments(['Hello', 'World'])).length, 2)
  })

test.serial('200 @google/genai: the models in pages, and one of them', async t => {
  const names = new Set<string>()
  for await (const { name } of await ai.models.list({ config: { pageSize: 50 } })) names.add(name!)
  for (const { model } of targets) t.true(names.has(`models/${model}`))
  t.true((await ai.models.get({ model: 'claude-haiku-4-5' })).inputTokenLimit! > 0)
})

test.serial('@google/genai: errors are its own, with their status', async t => {
  const nobody = new GoogleGenAI({ apiKey: 'svc_sk_live_nobody', httpOptions: { baseUrl: origin } })
  const [{ model }] = targets
  await t.throwsAsync(nobody.models.generateContent({ model, contents: 'Hello' }), { name: 'ApiError', message: /401/ })
  await t.throwsAsync(ai.models.generateContent({ model: 'no-such-model', contents: 'Hello' }), {
    name: 'ApiError',
    message: /404/,
  })
})
