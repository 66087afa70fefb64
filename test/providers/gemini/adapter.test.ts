import type { GatewayError } from '../../../shared/base/errors.ts'
import { gemini } from '../../../shared/providers/adapters/gemini/protocol.ts'
import type { Call, UpstreamRequest } from '../../../shared/providers/contract.ts'
import { chatCall as call, type Thinking, user } from '../../support/providers/gemini-calls.ts'
import { goldenRequest } from '../../support/providers/golden-request.ts'
import { test } from '../../support/test.ts'

const chat = gemini.direct.chat!
const sent = (request: UpstreamRequest) => JSON.parse(String(request.body))

const goldenSent = (signature: object) => ({
  systemInstruction: { parts: [{ text: 'A\n\nB' }] },
  contents: [
    { role: 'user', parts: [{ text: 'weather?' }, { inlineData: { mimeType: 'image/png', data: 'AAAA' } }] },
    {
      role: 'model',
      parts: [
        { functionCall: { id: 'call_1', name: 'w', args: { city: 'Oslo' } }, ...signature },
        { functionCall: { id: 'call_2', name: 'w', args: { city: 'Rome' } } },
      ],
    },
    {
      role: 'user',
      parts: [
        { functionResponse: { id: 'call_1', name: 'w', response: { output: '5C' } } },
        { functionResponse: { id: 'call_2', name: 'w', response: { t: 20 } } },
        { text: 'thanks' },
      ],
    },
  ],
  tools: [
    {
      functionDeclarations: [
        {
          name: 'w',
          description: 'd',
          parametersJsonSchema: { type: 'object', properties: { city: { type: 'string' } } },
        },
      ],
    },
  ],
  toolConfig: { functionCallingConfig: { mode: 'ANY' } },
  generationConfig: { maxOutputTokens: 300, temperature: 0.2, stopSequences: ['END'] },
})

test('golden: the request, with the stand-in for a lost signature on newer models only', t => {
  const request = chat.request(call(goldenRequest, 'level'))
  t.like(request, { method: 'POST', path: '/v1beta/models/gemini-3.5-flash:generateContent' })
  t.deepEqual(sent(request), goldenSent({ thoughtSignature: 'skip_thought_signature_validator' }))
  t.deepEqual(sent(chat.request(call(goldenRequest, 'budget'))), goldenSent({}))
  t.is(chat.request(call({ stream: true })).path, '/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse')
})

const tools = goldenRequest.tools
const functionTool = { type: 'function', function: { name: 'w' } }
const schema = { type: 'object' }
/** Thoughts are shown where the model thinks. */
const shown = (effort: string) => (effort === 'none' ? {} : { includeThoughts: true })
const settings: [string, object, object, Thinking?][] = [
  ['max_tokens', { max_tokens: 7 }, { maxOutputTokens: 7 }],
  ['max_completion_tokens first', { max_tokens: 7, max_completion_tokens: 8 }, { maxOutputTokens: 8 }],
  [
    'sampling',
    { temperature: 0, top_p: 0.5, seed: 3, stop: 'a', n: 2 },
    { temperature: 0, topP: 0.5, seed: 3, stopSequences: ['a'], candidateCount: 2 },
  ],
  ['penalties', { presence_penalty: 1, frequency_penalty: -1 }, { presencePenalty: 1, frequencyPenalty: -1 }],
  ['logprobs', { logprobs: true, top_logprobs: 4 }, { responseLogprobs: true, logprobs: 4 }],
  ['json_object', { response_format: { type: 'json_object' } }, { responseMimeType: 'application/json' }],
  [
    'json_schema',
    { response_format: { type: 'json_schema', json_schema: { name: 's', schema } } },
    { responseMimeType: 'application/json', responseJsonSchema: schema },
  ],
  ['modalities', { modalities: ['text', 'image'] }, { responseModalities: ['TEXT', 'IMAGE'] }],
  ...(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const).flatMap(
    (reasoning_effort, index): typeof settings => [
      [
        `${reasoning_effort} by level`,
        { reasoning_effort },
        {
          thinkingConfig: {
            thinkingLevel: ['MINIMAL', 'MINIMAL', 'LOW', 'MEDIUM', 'HIGH', 'HIGH', 'HIGH'][index],
            ...shown(reasoning_effort),
          },
        },
        'level',
      ],
      [
        `${reasoning_effort} by budget`,
        { reasoning_effort },
        {
          thinkingConfig: {
            thinkingBudget: [0, 512, 1024, 8192, 24576, 24576, 24576][index],
            ...shown(reasoning_effort),
          },
        },
        'budget',
      ],
    ],
  ),
]
for (const [name, fields, config, thinking] of settings) {
  test(`sent setting: ${name}`, t => t.deepEqual(sent(chat.request(call(fields, thinking))).generationConfig, config))
}

test('sent: the gateway’s own ceiling wins, and what needs no setting sends none', t => {
  t.is(sent(chat.request(call({ max_tokens: 7 }, undefined, { maxTokens: 5 }))).generationConfig.maxOutputTokens, 5)
  const plain = {
    response_format: { type: 'text' },
    modalities: ['text'],
    tool_choice: 'auto',
    reasoning_effort: 'none',
    stop: null,
    logit_bias: {},
  }
  t.deepEqual(sent(chat.request(call(plain))), { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] })
})

test('sent effort: no less than the least the model can do', t => {
  const thinkingConfig = (reasoning_effort: string, thinking: Thinking, min: Record<string, string | number>) => {
    const asked = call({ reasoning_effort }, thinking)
    Object.assign(asked.target.deployment.traits!, min)
    return sent(chat.request(asked)).generationConfig.thinkingConfig
  }
  t.deepEqual(thinkingConfig('none', 'level', { min_thinking: 'low' }), { thinkingLevel: 'LOW' })
  t.deepEqual(thinkingConfig('medium', 'level', { min_thinking: 'low' }), {
    thinkingLevel: 'MEDIUM',
    ...shown('medium'),
  })
  t.deepEqual(thinkingConfig('none', 'budget', { min_thinking_budget: 128 }), { thinkingBudget: 128 })
  t.deepEqual(thinkingConfig('low', 'budget', { min_thinking_budget: 128 }), { thinkingBudget: 1024, ...shown('low') })
})

for (const [choice, config] of [
  ['none', { mode: 'NONE' }],
  ['auto', { mode: 'AUTO' }],
  ['validated', { mode: 'VALIDATED' }],
  ['required', { mode: 'ANY' }],
  [functionTool, { mode: 'ANY', allowedFunctionNames: ['w'] }],
] as const) {
  test(`sent tool choice: ${config.mode} for ${JSON.stringify(choice)}`, t => {
    t.deepEqual(sent(chat.request(call({ tools, tool_choice: choice }))).toolConfig, { functionCallingConfig: config })
  })
}

const content = (...parts: object[]) => ({ messages: [{ role: 'user', content: parts }] })
const picture = (url: string) => content({ type: 'image_url', image_url: { url } })
const sound = (format: string, data = 'AAAA') => content({ type: 'input_audio', input_audio: { data, format } })
const document = (file: object) => content({ type: 'file', file })

test('sent media: audio, pdf and fetched images as bytes', t => {
  const parts = (fields: object, media?: Call<'chat'>['media']) =>
    sent(chat.request(call(fields, undefined, media && { media }))).contents[0].parts
  t.deepEqual(parts(sound('mp3')), [{ inlineData: { mimeType: 'audio/mp3', data: 'AAAA' } }])
  t.deepEqual(parts(document({ file_data: 'data:application/pdf;base64,AAAA' })), [
    { inlineData: { mimeType: 'application/pdf', data: 'AAAA' } },
  ])
  const url = 'https://example.com/a.png'
  const twice = {
    messages: [
      ...picture(url).messages,
      { role: 'assistant', content: 'x' },
      ...picture(url).messages,
      ...picture('data:image/png;base64,AAAA').messages,
    ],
  }
  const { body, target } = call(twice)
  t.deepEqual(chat.remoteMedia!(body, target), [url, url])
  const media = new Map([[url, { contentType: 'image/webp; x=y', bytes: Buffer.from([1, 2, 3]) }]])
  t.deepEqual(parts(twice, media), [{ inlineData: { mimeType: 'image/webp', data: 'AQID' } }])
  const html = new Map([[url, { contentType: 'text/html', bytes: Buffer.from('x') }]])
  t.like(
    t.throws(() => parts(picture(url), html)),
    { code: 'invalid_request', param: 'messages.0.content.0.image_url.url' },
  )
})

const at = 'messages.0.content.0'
const refusals: [string, object, string, string][] = [
  ['only empty content', { messages: [{ role: 'user', content: '' }] }, 'invalid_request', 'messages'],
  [
    'a function message',
    { messages: [user, { role: 'function', name: 'w', content: '' }] },
    'unsupported_capability',
    'messages.1.role',
  ],
  ['an unfetched image', picture('https://example.com/a.png'), 'url_not_allowed', `${at}.image_url.url`],
  ['an image of another scheme', picture('file:///etc/passwd'), 'invalid_request', `${at}.image_url.url`],
  ['a data URI without base64', picture('data:image/png,abc'), 'invalid_request', `${at}.image_url.url`],
  ['an image that is text', picture('data:text/plain;base64,AAAA'), 'unsupported_capability', `${at}.image_url.url`],
  ['an unknown audio format', sound('midi'), 'unsupported_capability', `${at}.input_audio.format`],
  ['audio that is not base64', sound('wav', '%%'), 'invalid_request', `${at}.input_audio.data`],
  ['a file without data', document({}), 'missing_field', `${at}.file.file_data`],
  [
    'a file that is no pdf',
    document({ file_data: 'data:text/csv;base64,AAAA' }),
    'unsupported_capability',
    `${at}.file.file_data`,
  ],
  [
    'an earlier audio answer',
    { messages: [user, { role: 'assistant', audio: { id: 'a' } }] },
    'unsupported_capability',
    'messages.1.audio',
  ],
  [
    'a result without a call',
    { messages: [user, { role: 'tool', tool_call_id: 'c', content: '' }] },
    'invalid_request',
    'messages.1.tool_call_id',
  ],
  ['a choice without tools', { tool_choice: 'required' }, 'invalid_request', 'tool_choice'],
  [
    'a choice of an unknown tool',
    { tools, tool_choice: { type: 'function', function: { name: 'x' } } },
    'invalid_request',
    'tool_choice.function.name',
  ],
  [
    'a choice of allowed tools',
    { tools, tool_choice: { type: 'allowed_tools' } },
    'unsupported_capability',
    'tool_choice.allowed_tools',
  ],
  ['logit_bias', { logit_bias: { 5: 1 } }, 'unsupported_capability', 'logit_bias'],
  ['audio answers', { modalities: ['text', 'audio'] }, 'unsupported_capability', 'modalities'],
  ['nine choices', { n: 9 }, 'unsupported_capability', 'n'],
  ['a seed of 33 bits', { seed: 2 ** 32 }, 'unsupported_capability', 'seed'],
  ['top_logprobs alone', { top_logprobs: 2 }, 'invalid_request', 'top_logprobs'],
]
for (const [name, fields, code, param] of refusals) {
  test(`400 ${code} for ${name}`, t => {
    const error = t.throws<GatewayError>(() => chat.request(call(fields)))
    t.like(error, { name: 'GatewayError', status: 400, code, param })
  })
}
