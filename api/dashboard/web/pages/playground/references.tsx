import { ActionIcon, Button, FileButton, Group, Image, Input, Stack, Text } from '@mantine/core'
import { IconUpload, IconX } from '@tabler/icons-react'
import { useMutation } from '@tanstack/react-query'
import { ApiFailure } from './outcome.tsx'
import { usePlayground } from './playground-context.ts'

/** An uploaded file; its URL expires. */
export type Reference = { url: string; name: string; contentType: string }

/** Reference files of a request: uploaded through the API when selected, and sent as URLs. */
export function References({
  label,
  description,
  accept,
  max = 1,
  value,
  onChange,
}: {
  label: string
  description?: string
  accept: string
  max?: number
  value: Reference[]
  onChange: (files: Reference[]) => void
}) {
  const { client } = usePlayground()
  const upload = useMutation({
    mutationFn: async (file: File): Promise<Reference> => {
      const body = new FormData()
      body.append('file', file)
      const { url, content_type } = await client.json<{ url: string; content_type: string }>('/v1/uploads', { body })
      return { url, name: file.name, contentType: content_type }
    },
    onSuccess: file => onChange([...value, file].slice(-max)),
  })
  return (
    <Stack gap={6} role="group" aria-label={label}>
      <div>
        <Input.Label labelElement="div">{label}</Input.Label>
        {description && (
          <Text size="xs" c="dimmed">
            {description}
          </Text>
        )}
      </div>
      <Group gap="xs">
        {value.map(file => (
          <Chosen key={file.url} file={file} onRemove={() => onChange(value.filter(({ url }) => url !== file.url))} />
        ))}
        {value.length < max && (
          <FileButton accept={accept} onChange={file => file && upload.mutate(file)}>
            {props => (
              <Button
                {...props}
                variant="default"
                size="xs"
                loading={upload.isPending}
                leftSection={<IconUpload size={14} aria-hidden />}
              >
                Choose file<span className="visually-hidden"> for {label}</span>
              </Button>
            )}
          </FileButton>
        )}
      </Group>
      {upload.error && <ApiFailure error={upload.error} />}
    </Stack>
  )
}

function Chosen({ file: { url, name, contentType }, onRemove }: { file: Reference; onRemove: () => void }) {
  return (
    <Group gap={4} wrap="nowrap">
      {contentType.startsWith('image/') ? (
        <Image src={url} alt={name} h={48} w={48} fit="cover" radius="sm" />
      ) : (
        <Text size="xs" truncate maw={160}>
          {name}
        </Text>
      )}
      <ActionIcon variant="subtle" color="gray" size="sm" aria-label={`Remove ${name}`} onClick={onRemove}>
        <IconX size={14} aria-hidden />
      </ActionIcon>
    </Group>
  )
}
