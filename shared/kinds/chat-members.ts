import { alike, type MemberTables, members, Objects } from './member-reader.ts'

const texts = new Objects().add('text', members('type text')).add('refusal', members('type refusal'))
const answerTexts = new Objects()
  .add('text', members('type text'))
  .add('refusal', members('type refusal'))
  .add('thinking', members('type closed signature', { thinking: texts }))
const parts = new Objects()
  .add('text', members('type text'))
  .add('image_url', members('type', { image_url: alike('detail', { url: { file: 'image', form: 'link' } }) }))
  .add('input_audio', members('type', { input_audio: alike('format', { data: { file: 'sound', form: 'base64' } }) }))
  .add('file', members('type', { file: alike('filename', { file_data: { file: 'document', form: 'base64' } }) }))

const calls = alike('id type index', {
  function: alike('name arguments'),
  custom: alike('name input'),
})
const reasoning = alike('type text summary data signature format id index')
const messages = new Objects('role')
  .add('system developer function', members('role name', { content: texts }))
  .add('user', members('role name', { content: parts }))
  .add('tool', members('role name tool_call_id', { content: parts }))
  .add(
    'assistant',
    members('role name refusal prefix partial reasoning reasoning_content', {
      content: answerTexts,
      // Its length is not known here; it is counted as an earlier sound.
      audio: alike('id'),
      tool_calls: calls,
      function_call: alike('name arguments'),
      reasoning_details: reasoning,
    }),
  )

const prediction = alike('type', { content: texts })
const tools = alike('type', {
  function: alike('name description strict', { parameters: 'json' }),
  custom: alike('name description', { format: 'json' }),
})

/** The members of chat messages and their parts that may be sent, and what a provider reads in each. */
export const chatMemberTables: MemberTables = { messages, prediction, tools }
