import { Button, Group, Progress, Stack, Switch, Text, TextInput } from '@mantine/core'
import { IconMicrophone, IconMicrophoneOff, IconPlayerStop } from '@tabler/icons-react'
import { type FormEvent, useState } from 'react'
import type { DashboardKey } from '../../../../wire/keys.ts'
import type { CatalogModel } from '../../../../wire/models.ts'
import { PromptField, TabForm, WordField } from '../fields.tsx'
import { ModelPicker, useChoice } from '../model-picker.tsx'
import { omitEmpty } from '../omit-empty.ts'
import { Panels } from '../panels.tsx'
import { usePersistedField } from '../persisted-field.ts'
import { usePlayground } from '../playground-context.ts'
import { SessionPanel } from './session-panel.tsx'
import { type Talk, useTalk } from './use-talk.ts'

/** Transcribes the user's speech; the sandbox accepts any model. */
const transcriber = 'gpt-4o-mini-transcribe'
const usual = { instructions: '', voice: '', transcribes: false }
type Fields = typeof usual

/** Sandbox sessions use OpenAI’s events for every model; live ones use the model's own protocol. */
const speaks = ({ environment }: DashboardKey, { type, providers }: CatalogModel) =>
  type === 'realtime' &&
  (environment === 'test' || providers.some(provider => provider.status !== 'not_configured' && provider.openai_events))

export default function RealtimeTab() {
  const { apiKey } = usePlayground()
  const choice = useChoice('realtime', model => speaks(apiKey, model))
  const [fields, setFields] = usePersistedField('realtime.fields', usual)
  const set = (change: Partial<Fields>) => setFields(kept => ({ ...kept, ...change }))
  const talk = useTalk()
  const { phase } = talk.state
  const settings = settingsOf(fields)
  const form = (
    <Stack gap="sm">
      <TabForm
        submit="Start session"
        pending={phase === 'opening'}
        disabled={choice.slug === '' || phase !== 'closed'}
        onSubmit={() => void talk.open(choice.slug, settings)}
      >
        <ModelPicker choice={choice} />
        <PromptField
          label="Instructions"
          required={false}
          value={fields.instructions}
          onChange={instructions => set({ instructions })}
          placeholder="Be brief and friendly"
        />
        <WordField
          label="Voice"
          description="Leave empty for the default"
          value={fields.voice}
          onChange={voice => set({ voice })}
        />
        <Switch
          label="Transcribe my speech"
          description="Uses another model at its own price"
          checked={fields.transcribes}
          onChange={event => set({ transcribes: event.currentTarget.checked })}
        />
      </TabForm>
      {phase === 'open' && <Controls talk={talk} />}
    </Stack>
  )
  const result = <SessionPanel state={talk.state} />
  return (
    <Panels form={form} result={result} snippets={[{ language: 'Shell', code: commandOf(choice.slug, settings) }]} />
  )
}

function settingsOf({ instructions, voice, transcribes }: Fields): object {
  return {
    type: 'realtime',
    ...omitEmpty({ instructions }),
    audio: {
      input: {
        format: { type: 'audio/pcm', rate: 24_000 },
        turn_detection: { type: 'server_vad' },
        ...(transcribes && { transcription: { model: transcriber } }),
      },
      output: { format: { type: 'audio/pcm', rate: 24_000 }, ...omitEmpty({ voice }) },
    },
  }
}

function commandOf(model: string, settings: object): string {
  const address = `${location.origin.replace(/^http/, 'ws')}/v1/realtime?model=${model}`
  return [
    `websocat -H "Authorization: Bearer $HEADGATE_API_KEY" \\\n  '${address}'`,
    '# then enter events, one per line:',
    JSON.stringify({ type: 'session.update', session: settings }),
    '{"type":"response.create"}',
  ].join('\n')
}

function Controls({ talk }: { talk: Talk }) {
  const [text, setText] = useState('')
  const write = (event: FormEvent) => {
    event.preventDefault()
    if (text.trim() === '') return
    talk.write(text)
    setText('')
  }
  return (
    <Stack gap="sm">
      <Group gap="xs">
        <Button
          size="xs"
          variant="default"
          aria-pressed={talk.muted}
          leftSection={
            talk.muted ? <IconMicrophoneOff size={14} aria-hidden /> : <IconMicrophone size={14} aria-hidden />
          }
          onClick={() => talk.mute(!talk.muted)}
        >
          {talk.muted ? 'Unmute' : 'Mute'}
        </Button>
        <Button size="xs" color="red" leftSection={<IconPlayerStop size={14} aria-hidden />} onClick={talk.close}>
          End session
        </Button>
      </Group>
      {talk.microphoneProblem ? (
        <Text size="xs" c="red" role="alert">
          {talk.microphoneProblem}
        </Text>
      ) : (
        <div>
          <Text size="xs" c="dimmed">
            Microphone
          </Text>
          <Progress value={talk.loudness * 100} transitionDuration={80} aria-label="Microphone level" />
        </div>
      )}
      <form onSubmit={write}>
        <Group gap="xs" align="flex-end" wrap="nowrap">
          <TextInput
            label="Or type a message"
            style={{ flex: 1 }}
            value={text}
            onChange={event => setText(event.currentTarget.value)}
          />
          <Button type="submit" variant="default">
            Send
          </Button>
        </Group>
      </form>
    </Stack>
  )
}
