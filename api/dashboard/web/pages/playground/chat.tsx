import { Button, Code, Grid, Paper, Stack } from '@mantine/core'
import { IconTrash } from '@tabler/icons-react'
import { Empty } from '../../components/states.tsx'
import { Composer } from './chat/composer.tsx'
import { CallResults, Conversation } from './chat/conversation.tsx'
import { type Settings, SettingsForm, toolsOf, useSettings } from './chat/settings.tsx'
import { messagesOf, openCalls, type Picture, type Turn } from './chat/turns.ts'
import { useChat } from './chat/use-chat.ts'
import { given } from './curl.ts'
import { useKept } from './kept.ts'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { Curl } from './panels.tsx'

const noDraft = { text: '', pictures: [] as Picture[] }

export default function ChatTab() {
  const choice = useChoice(
    'chat',
    ({ type, endpoint }) => type === 'chat' && endpoint === '/v1/chat/completions',
    'auto',
  )
  const [settings, setSettings] = useSettings()
  const [draft, setDraft] = useKept('chat.draft', noDraft)
  const { tools, problem } = toolsOf(settings)
  const takesPictures = choice.model?.input_modalities.includes('image') ?? true
  const gives = choice.model?.output_modalities ?? []
  const bodyOf = (turns: Turn[]) => ({
    ...requestOf(choice.slug, settings, tools ?? [], gives),
    messages: messagesOf(settings.system, turns),
  })
  const chat = useChat(bodyOf)
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
            <Empty title="Ask something">
              The answer streams in as a client would get it. A test key echoes what you write; with tools added, a
              message with <Code>sandbox:tool</Code> has one called.
            </Empty>
          ) : (
            <Conversation turns={chat.turns} onAgain={chat.isRunning ? null : chat.again} />
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
          <Curl request={{ path: '/v1/chat/completions', body: request, stream: true }} />
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
              Clear the conversation
            </Button>
          </Stack>
        </Paper>
      </Grid.Col>
    </Grid>
  )
}

/** What the command shows: the conversation with the draft, or what was asked last, or something to begin with. */
function asked(turns: Turn[], { text, pictures }: typeof noDraft): Turn[] {
  if (text !== '' || turns.length === 0) return [...turns, { id: 0, role: 'user', text: text || 'Hello', pictures }]
  return turns.slice(0, turns.findLastIndex(({ role }) => role !== 'assistant') + 1)
}

/** A request without its messages: what the form says, in the words of the API. */
function requestOf(model: string, settings: Settings, tools: object[], gives: string[]): object {
  const { mode, temperature, maxTokens, pictures } = settings
  return {
    model,
    stream: true,
    stream_options: { include_usage: true },
    ...given({ mode: model === 'auto' ? mode : '', temperature, max_tokens: maxTokens }),
    ...(tools.length > 0 && { tools }),
    ...(pictures && gives.includes('image') && { modalities: ['image', 'text'] }),
  }
}

/** Images as a reader of the command wants them: named, not spelled out. They have megabytes, and this runs at every key. */
function withoutPictures(turn: Turn): Turn {
  if (turn.role !== 'user') return turn
  const named = (url: string) => `${url.slice(0, url.indexOf(',') + 1)}<the image in base64>`
  return { ...turn, pictures: turn.pictures.map(({ name, url }) => ({ name, url: named(url) })) }
}
