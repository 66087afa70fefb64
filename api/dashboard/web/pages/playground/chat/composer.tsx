import { ActionIcon, Button, FileButton, Group, Image, Paper, Stack, Text, Textarea } from '@mantine/core'
import { IconPaperclip, IconPlayerStop, IconSend, IconX } from '@tabler/icons-react'
import { type Dispatch, type FormEvent, type KeyboardEvent, type SetStateAction, useState } from 'react'
import { bytes } from '../../../format.ts'
import type { Picture } from './turns.ts'

const maxPictures = 8
const maxPictureBytes = 4_000_000

/** The input of the next message. */
export function Composer({
  draft,
  onDraft,
  takesPictures,
  isRunning,
  problem,
  onSend,
  onStop,
}: {
  draft: Draft
  onDraft: Dispatch<SetStateAction<Draft>>
  takesPictures: boolean
  isRunning: boolean
  /** Why sending is disabled. */
  problem: string | null
  onSend: () => void
  onStop: () => void
}) {
  const isEmpty = draft.text.trim() === '' && draft.pictures.length === 0
  const send = (event: FormEvent) => {
    event.preventDefault()
    if (!isEmpty && !isRunning && problem === null) onSend()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) send(event)
  }
  return (
    <Paper withBorder p="xs" component="form" onSubmit={send}>
      <Stack gap="xs">
        <Pictures pictures={draft.pictures} onChange={pictures => onDraft({ ...draft, pictures })} />
        <Textarea
          aria-label="Message"
          placeholder="Write a message. Shift + Enter for a new line."
          variant="unstyled"
          px={4}
          autosize
          minRows={2}
          maxRows={10}
          value={draft.text}
          onChange={event => onDraft({ ...draft, text: event.currentTarget.value })}
          onKeyDown={onKeyDown}
        />
        <Group justify="space-between">
          {takesPictures ? <Attach onDraft={onDraft} /> : <span />}
          {isRunning ? (
            <Button variant="default" leftSection={<IconPlayerStop size={16} aria-hidden />} onClick={onStop}>
              Stop
            </Button>
          ) : (
            <Button
              type="submit"
              leftSection={<IconSend size={16} aria-hidden />}
              disabled={isEmpty || problem !== null}
            >
              Send
            </Button>
          )}
        </Group>
        {problem && (
          <Text size="xs" c="red">
            {problem}
          </Text>
        )}
      </Stack>
    </Paper>
  )
}

type Draft = { text: string; pictures: Picture[] }

function Attach({ onDraft }: { onDraft: Dispatch<SetStateAction<Draft>> }) {
  const [problem, setProblem] = useState<string | null>(null)
  const attach = async (files: File[]) => {
    const small = files.filter(({ size }) => size <= maxPictureBytes)
    setProblem(small.length < files.length ? `Images can have up to ${bytes(maxPictureBytes)}.` : null)
    const pictures = await Promise.all(small.map(async file => ({ name: file.name, url: await dataUrl(file) })))
    onDraft(kept => ({ ...kept, pictures: [...kept.pictures, ...pictures].slice(0, maxPictures) }))
  }
  return (
    <Group gap="xs">
      <FileButton accept="image/*" multiple onChange={files => void attach(files)}>
        {props => (
          <Button
            {...props}
            variant="subtle"
            color="gray"
            size="xs"
            leftSection={<IconPaperclip size={16} aria-hidden />}
          >
            Add images
          </Button>
        )}
      </FileButton>
      {problem && (
        <Text size="xs" c="red" role="alert">
          {problem}
        </Text>
      )}
    </Group>
  )
}

function Pictures({ pictures, onChange }: { pictures: Picture[]; onChange: (pictures: Picture[]) => void }) {
  if (pictures.length === 0) return null
  return (
    <Group gap="xs">
      {pictures.map((picture, index) => (
        <Group key={picture.url} gap={2} wrap="nowrap" align="flex-start">
          <Image src={picture.url} alt={picture.name} h={56} w={56} fit="cover" radius="sm" />
          <ActionIcon
            variant="subtle"
            color="gray"
            size="xs"
            aria-label={`Remove ${picture.name}`}
            onClick={() => onChange(pictures.filter((_, i) => i !== index))}
          >
            <IconX size={12} aria-hidden />
          </ActionIcon>
        </Group>
      ))}
    </Group>
  )
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(reader.result as string)
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(file)
  })
}
