import { Button, Code, Grid, Paper, Stack } from '@mantine/core'
import { IconTrash } from '@tabler/icons-react'
import { Empty } from '../../../components/states.tsx'
import { curlOf } from '../curl.ts'
import { ModelPicker, useChoice } from '../model-picker.tsx'
import { Equivalent } from '../panels.tsx'
import { usePersistedField } from '../persisted-field.ts'
import { Composer } from './composer.tsx'
import { CallResults, Conversation } from './conversation.tsx'
import type { Format } from './formats/format.ts'
import { formats, SettingsForm, toolsOf, useSettings } from './settings.tsx'
import { openCalls, type Picture, type Turn } from './turns.ts'
import { useChat } from './use-chat.ts'

const noDraft = { text: '', pictures: [] as Picture[] }

export default function ChatTab() {
  const choice = useChoice(
    'chat',
    ({ type, endpoint }) => type === 'chat' && endpoint === '/v1/chat/completions',
    'auto',
  )
  const [settings, setSettings] = useSettings()
  const [draft, setDraft] = usePersistedField('chat.draft', noDraft)
  const { tools, problem } = toolsOf(settings)
  const takesPictures = choice.model?.input_modalities.includes('image') ?? true
  const format = formats[settings.format]
  const bodyOf = (turns: Turn[]) =>
    format.body({
      ...settings,
      model: choice.slug,
      maxOutputTokens: choice.model?.max_output_tokens ?? null,
      turns,
      tools: tools ?? [],
      mode: choice.slug === 'auto' ? settings.mode : '',
      asksForPictures: settings.pictures && choice.model?.output_modalities.includes('image') === true,
    })
  const chat = useChat(format, bodyOf)
  const calls = openCalls(chat.turns)
  const request = bodyOf(asked(chat.turns, draft).map(withoutPictures))

  const send = () => {
    chat.send([{ role: 'user', ...draft }])
    setDraft(noDraft)
  }
  return (
    <Grid gap="md">
      <Grid.Col span={{ base: 12, md: 8 }}>
        <Stack gap="md">
          <ModelPicker choice={choice} auto />
          {chat.turns.length === 0 ? (
            <Empty title="Send a message">
              Responses are streamed. A test key echoes your message; if you add tools, a message containing{' '}
              <Code>sandbox:tool</Code> triggers a tool call.
            </Empty>
          ) : (
            <Conversation turns={chat.turns} onRegenerate={chat.isRunning ? null : chat.regenerate} />
          )}
          {calls.length > 0 && !chat.isRunning ? (
            <CallResults
              calls={calls}
              onSend={results =>
                chat.send(calls.map(({ id, name }, i) => ({ role: 'tool', callId: id, name, text: results[i]! })))
              }
            />
          ) : (
            <Composer
              draft={draft}
              onDraft={setDraft}
              takesPictures={takesPictures}
              isRunning={chat.isRunning}
              problem={problem && `Tools: ${problem}`}
              onSend={send}
              onStop={chat.stop}
            />
          )}
          <Equivalent snippets={snippetsOf(format, request)} />
        </Stack>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 4 }}>
        <Paper withBorder p="md">
          <Stack gap="sm">
            <SettingsForm settings={settings} onChange={setSettings} model={choice.model} />
            <Button
              variant="default"
              leftSection={<IconTrash size={16} aria-hidden />}
              disabled={chat.turns.length === 0}
              onClick={chat.clear}
            >
              Clear conversation
            </Button>
          </Stack>
        </Paper>
      </Grid.Col>
    </Grid>
  )
}

/** The request of the examples: the conversation with the draft, otherwise the last request, otherwise an example. */
function asked(turns: Turn[], { text, pictures }: typeof noDraft): Turn[] {
  if (text !== '' || turns.length === 0) return [...turns, { id: 0, role: 'user', text: text || 'Hello', pictures }]
  return turns.slice(0, turns.findLastIndex(({ role }) => role !== 'assistant') + 1)
}

/** The request in curl, and by the format's official SDKs. */
function snippetsOf({ path, javascript, python }: Format, body: object) {
  return [
    { language: 'curl', code: curlOf({ path, body, stream: true }) },
    { language: 'Node.js', code: javascript(location.origin, body) },
    { language: 'Python', code: python(location.origin, body) },
  ]
}

/** Replaces images by a placeholder in the command: they have megabytes, and this runs at every keystroke. */
function withoutPictures(turn: Turn): Turn {
  if (turn.role !== 'user') return turn
  const named = (url: string) => `${url.slice(0, url.indexOf(',') + 1)}<the image in base64>`
  return { ...turn, pictures: turn.pictures.map(({ name, url }) => ({ name, url: named(url) })) }
}
