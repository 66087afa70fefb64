import test from 'ava'
import type { RunnableToolFunctionWithParse } from 'openai-7/lib/RunnableFunction'
import { liveKey, requestsTo, testKey } from './support/environment.ts'
import { chatHelpers, clientOf, majorNames } from './support/openai.ts'
import { imageUri, marker, person, targets, weather } from './support/samples.ts'

type Cost = { cost: number }

for (const major of majorNames) {
  for (const { model, provider } of targets) {
    const client = clientOf(major, liveKey)
    const asking = (content: string) => ({ model, messages: [{ role: 'user' as const, content }] })
    const title = (what: string) => `200 ${major}, ${provider}: ${what}`

    test.serial(title('chat with usage and cost'), async t => {
      const question = `Hello ${marker()}`
      const { data, response } = await client.chat.completions.create(asking(question)).withResponse()
      t.is(data.object, 'chat.completion')
      t.like(data.choices[0], { finish_reason: 'stop', message: { role: 'assistant', content: `Echo: ${question}` } })
      const { prompt_tokens, completion_tokens, total_tokens, cost } = data.usage! as typeof data.usage & Cost
      t.true(prompt_tokens > 0 && completion_tokens > 0 && cost > 0)
      t.is(total_tokens, prompt_tokens + completion_tokens)
      t.is(Number(response.headers.get('x-gateway-cost-usd')), cost)
      t.is((await requestsTo(provider, question)).length, 1)
    })

    test.serial(title('chat streamed, with usage and cost in the last chunk'), async t => {
      const question = `Hello ${marker()}`
      const body = { ...asking(question), stream: true as const, stream_options: { include_usage: true } }
      const chunks = []
      for await (const chunk of await client.chat.completions.create(body)) chunks.push(chunk)
      const last = chunks.pop()!
      t.deepEqual(last.choices, [])
      t.true((last.usage! as typeof last.usage & Cost).cost > 0)
      t.is(chunks.map(({ choices }) => choices[0]!.delta.content ?? '').join(''), `Echo: ${question}`)
      t.deepEqual(
        chunks.flatMap(({ choices }) => choices[0]!.finish_reason ?? []),
        ['stop'],
      )
    })

    test.serial(title('the stream helper gathers the whole answer'), async t => {
      const pieces: string[] = []
      const stream = chatHelpers(client).stream(asking('Hello there'))
      stream.on('content', delta => pieces.push(delta))
      const { choices, usage } = await stream.finalChatCompletion()
      t.is(choices[0]!.message.content, 'Echo: Hello there')
      t.is(pieces.join(''), 'Echo: Hello there')
      t.true((usage as typeof usage & Cost).cost > 0)
    })

    for (const stream of [false, true])
      test.serial(title(`the tool runner calls two tools and gets an answer${stream ? ', streamed' : ''}`), async t => {
        const result = marker()
        const asked: string[] = []
        const tool: RunnableToolFunctionWithParse<{ city: string }> = {
          type: 'function',
          function: {
            ...weather,
            parse: (text: string) => JSON.parse(text),
            function: ({ city }) => {
              asked.push(city)
              return `sunny in ${city} ${result}`
            },
          },
        }
        const body = { ...asking('What is the weather in Oslo and Rome?'), tools: [tool] }
        const helpers = chatHelpers(client)
        const runner = stream ? helpers.runTools({ ...body, stream }) : helpers.runTools(body)
        t.regex((await runner.finalContent()) ?? '', /\w/)
        t.deepEqual(asked.sort(), ['Oslo', 'Rome'])
        const [request] = await requestsTo(provider, result)
        t.true(request!.raw.includes(`sunny in Oslo ${result}`) && request!.raw.includes(`sunny in Rome ${result}`))
      })

    test.serial(title('structured output is parsed by its schema'), async t => {
      const json_schema = { name: 'person', strict: true, schema: person }
      const response_format = { type: 'json_schema' as const, json_schema }
      const body = { ...asking('Who is it?'), response_format }
      const { choices } = await chatHelpers(client).parse<typeof body, { name: string; age: number }>(body)
      t.is(typeof JSON.parse(choices[0]!.message.content!).age, 'number')
    })

    test.serial(title('an image in a message'), async t => {
      const text = `What is this? ${marker()}`
      const content = [
        { type: 'text' as const, text },
        { type: 'image_url' as const, image_url: { url: imageUri } },
      ]
      const body = { model, messages: [{ role: 'user' as const, content }] }
      const { choices } = await client.chat.completions.create(body)
      t.true(choices[0]!.message.content!.includes(text))
      const [request] = await requestsTo(provider, text)
      t.true(request!.raw.includes(imageUri.split(',')[1]!))
    })
  }

  test.serial(`200 ${major}: the sandbox answers chat, streams and calls tools`, async t => {
    const client = clientOf(major, testKey)
    const messages = [{ role: 'user' as const, content: 'Hello sandbox' }]
    const { data, response } = await client.chat.completions.create({ model: 'auto', messages }).withResponse()
    t.is(data.choices[0]!.message.content, 'Hello sandbox')
    t.is(response.headers.get('x-sandbox'), 'true')
    const streamed = await chatHelpers(client).stream({ model: 'auto', messages }).finalChatCompletion()
    t.is(streamed.choices[0]!.message.content, 'Hello sandbox')
    const tools = [{ type: 'function' as const, function: weather }]
    const tool_choice = { type: 'function' as const, function: { name: 'weather' } }
    const called = await client.chat.completions.create({ model: 'auto', messages, tools, tool_choice })
    const call = called.choices[0]!.message.tool_calls![0]!
    t.is(call.type === 'function' && typeof JSON.parse(call.function.arguments).city, 'string')
  })

  test.serial(`200 ${major}: embeddings, as numbers and as the client decodes them`, async t => {
    const client = clientOf(major, liveKey)
    const input = ['one', 'two']
    const decoded = await client.embeddings.create({ model: 'text-embedding-3-small', input, dimensions: 8 })
    t.deepEqual(
      decoded.data.map(({ index, embedding }) => [index, embedding.length]),
      [
        [0, 8],
        [1, 8],
      ],
    )
    const plain = { model: 'text-embedding-3-small', input, dimensions: 8, encoding_format: 'float' as const }
    const { data } = await client.embeddings.create(plain)
    for (const [i, { embedding }] of data.entries())
      for (const [j, value] of embedding.entries()) t.true(Math.abs(value - decoded.data[i]!.embedding[j]!) < 1e-6)
  })

  test.serial(`200 ${major}: legacy completions, whole and streamed`, async t => {
    const client = clientOf(major, testKey)
    const { choices } = await client.completions.create({ model: 'gpt-4.1', prompt: 'Hello' })
    t.like(choices[0], { text: 'Hello', finish_reason: 'stop' })
    let text = ''
    for await (const chunk of await client.completions.create({ model: 'gpt-4.1', prompt: 'Hello', stream: true }))
      text += chunk.choices[0]?.text ?? ''
    t.is(text, 'Hello')
  })

  test.serial(`200 ${major}: the list of models`, async t => {
    const ids: string[] = []
    for await (const { id, object } of clientOf(major, testKey).models.list()) {
      t.is(object, 'model')
      ids.push(id)
    }
    t.true(ids.includes('gpt-5.6-luna'))
    t.is(new Set(ids).size, ids.length)
  })
}
