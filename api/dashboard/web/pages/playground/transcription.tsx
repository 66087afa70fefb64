import { Button, FileButton, Group, Input, Paper, Stack, Text } from '@mantine/core'
import { IconMicrophone, IconPlayerStop, IconUpload } from '@tabler/icons-react'
import { useCallback, useEffect, useRef, useState } from 'react'
import type { CatalogModel } from '../../../wire/models.ts'
import { CodeBox } from '../../components/copy.tsx'
import { Empty } from '../../components/states.tsx'
import { bytes } from '../../format.ts'
import { listOf, Offered, PromptField, stillOffered, TabForm, WordField } from './fields.tsx'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { omitEmpty } from './omit-empty.ts'
import { ApiFailure, FactsLine } from './outcome.tsx'
import { Panels } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { usePlayground } from './playground-context.ts'
import { type Facts, factsOf } from './response-facts.ts'
import { type TabRun, useTabRun } from './tab-run.ts'
import { Waiting } from './waiting.tsx'

const path = '/v1/audio/transcriptions'
const usual = { file: null as File | null, language: '', prompt: '', format: '' }
type Fields = typeof usual
type Heard = { text: string; isText: boolean; facts: Facts }

export default function TranscriptionTab() {
  const { client } = usePlayground()
  const choice = useChoice('transcription', ({ type }) => type === 'transcription')
  const { model, slug } = choice
  const [fields, setFields] = usePersistedField('transcription.fields', usual)
  const set = (change: Partial<Fields>) => setFields(kept => ({ ...kept, ...change }))
  const words = wordsOf(slug, model, fields)
  const write = useTabRun('transcription', async (): Promise<Heard> => {
    const startedMs = performance.now()
    const body = new FormData()
    body.append('file', fields.file!)
    for (const [name, value] of Object.entries(words)) body.append(name, value)
    const response = await client.request(path, { body })
    return heardOf(await response.text(), words.response_format, factsOf(response, startedMs))
  })
  const form = (
    <TabForm
      submit="Transcribe"
      pending={write.isPending}
      disabled={slug === '' || !fields.file}
      onSubmit={() => write.start()}
    >
      <ModelPicker choice={choice} />
      <Sound file={fields.file} onChange={file => set({ file })} />
      <Offered
        label="Format"
        options={listOf(model, 'formats')}
        value={fields.format}
        onChange={format => set({ format })}
      />
      <WordField
        label="Language"
        description="A code such as en. Leave empty to detect it."
        value={fields.language}
        onChange={language => set({ language })}
      />
      {takesPrompt(model) && (
        <PromptField
          label="Prompt"
          required={false}
          value={fields.prompt}
          onChange={prompt => set({ prompt })}
          placeholder="Names and terms"
        />
      )}
    </TabForm>
  )
  const request = { path, form: { file: fields.file?.name ?? 'speech.mp3', fields: words } }
  return <Panels form={form} result={<Result write={write} />} request={request} />
}

const takesPrompt = (model: CatalogModel | undefined) => model !== undefined && model.kind.prompt !== false

function wordsOf(slug: string, model: CatalogModel | undefined, fields: Fields): Record<string, string> {
  return {
    model: slug,
    ...omitEmpty({
      response_format: stillOffered(listOf(model, 'formats'), fields.format),
      language: fields.language,
      prompt: takesPrompt(model) ? fields.prompt : '',
    }),
  } as Record<string, string>
}

/** Shows the text of a plain JSON response; other formats unchanged. */
function heardOf(answer: string, format: string | undefined, facts: Facts): Heard {
  if (format !== undefined && format !== 'json' && format !== 'verbose_json')
    return { text: answer, isText: format === 'text', facts }
  const parsed = JSON.parse(answer) as { text: string; usage?: { cost?: number } }
  const known = { ...facts, costUsd: parsed.usage?.cost ?? facts.costUsd }
  const isText = format !== 'verbose_json'
  return { text: isText ? parsed.text : JSON.stringify(parsed, null, 2), isText, facts: known }
}

function Result({ write }: { write: TabRun<Heard> }) {
  if (write.isPending) return <Waiting label="Transcribing" height={120} />
  if (write.error) return <ApiFailure error={write.error} />
  if (!write.data) return <Empty title="Your transcript appears here">Choose an audio file, or record one.</Empty>
  const { text, isText, facts } = write.data
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        {isText ? (
          <Text style={{ whiteSpace: 'pre-wrap' }} aria-live="polite">
            {text}
          </Text>
        ) : (
          <CodeBox code={text} label="transcript" />
        )}
        <FactsLine facts={facts} />
      </Stack>
    </Paper>
  )
}

/** An audio file or a recording. */
function Sound({ file, onChange }: { file: File | null; onChange: (file: File) => void }) {
  const { isRecording, problem, start, stop } = useRecorder(onChange)
  return (
    <Stack gap={6} role="group" aria-label="Sound">
      <Input.Label labelElement="div">Sound</Input.Label>
      <Group gap="xs">
        <FileButton accept="audio/*,video/*" onChange={chosen => chosen && onChange(chosen)}>
          {props => (
            <Button {...props} variant="default" size="xs" leftSection={<IconUpload size={14} aria-hidden />}>
              Choose file
            </Button>
          )}
        </FileButton>
        {isRecording ? (
          <Button size="xs" color="red" leftSection={<IconPlayerStop size={14} aria-hidden />} onClick={stop}>
            Stop recording
          </Button>
        ) : (
          <Button
            size="xs"
            variant="default"
            leftSection={<IconMicrophone size={14} aria-hidden />}
            onClick={() => void start()}
          >
            Record
          </Button>
        )}
      </Group>
      <Text size="xs" c="dimmed" aria-live="polite">
        {isRecording ? 'Recording…' : file ? `${file.name}, ${bytes(file.size)}` : 'At most 25 MB'}
      </Text>
      {problem && (
        <Text size="xs" c="red" role="alert">
          {problem}
        </Text>
      )}
    </Stack>
  )
}

function useRecorder(onRecorded: (file: File) => void) {
  const recorder = useRef<MediaRecorder | null>(null)
  const [isRecording, setRecording] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const release = useCallback(() => {
    for (const track of recorder.current?.stream.getTracks() ?? []) track.stop()
    recorder.current = null
  }, [])
  const isHere = useRef(false)
  useEffect(() => {
    isHere.current = true
    return () => {
      isHere.current = false
      release()
    }
  }, [release])
  const start = async () => {
    setProblem(null)
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
      const recording = new MediaRecorder(stream)
      // Access may be granted after the page was left, or requested twice.
      if (!isHere.current || recorder.current) {
        for (const track of stream.getTracks()) track.stop()
        return
      }
      const parts: Blob[] = []
      recording.ondataavailable = ({ data }) => void parts.push(data)
      recording.onstop = () => {
        const [type] = recording.mimeType.split(';', 1) as [string]
        onRecorded(new File(parts, `recording.${type.split('/')[1]}`, { type }))
        release()
        setRecording(false)
      }
      recorder.current = recording
      recording.start()
      setRecording(true)
    } catch {
      setProblem('No microphone access. Allow it in the browser, on a page served over https or from localhost.')
    }
  }
  return { isRecording, problem, start, stop: () => recorder.current?.stop() }
}
