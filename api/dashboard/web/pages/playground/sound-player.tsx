import { Paper, Stack } from '@mantine/core'
import { useEffect, useState } from 'react'
import { MediaPreview } from '../../components/media-preview.tsx'
import { FactsLine } from './outcome.tsx'
import type { Facts } from './response-facts.ts'

export type Sound = { sound: Blob; contentType: string; title: string; facts: Facts }

/** A sound with its player and facts. */
export function SoundPlayer({ sound, contentType, title, facts }: Sound) {
  const [url, setUrl] = useState<string | null>(null)
  useEffect(() => {
    const address = URL.createObjectURL(sound)
    setUrl(address)
    return () => URL.revokeObjectURL(address)
  }, [sound])
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        {url && <MediaPreview url={url} contentType={contentType} title={title} />}
        <FactsLine facts={facts} />
      </Stack>
    </Paper>
  )
}
