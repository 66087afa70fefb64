import { Anchor, Box, Button, Group, Image, Skeleton, Stack, Text } from '@mantine/core'
import { IconCube, IconDownload } from '@tabler/icons-react'
import { lazy, Suspense, useState } from 'react'

const MeshViewer = lazy(() => import('./mesh-viewer.tsx'))

const viewerHeight = 360

type Media = {
  /** May also be a `data:` or `blob:` URL. */
  url: string
  contentType: string
  /** The alternative text. */
  title: string
}

/** Previews an image, video, audio file or mesh; other files can be downloaded. */
export function MediaPreview({ url, contentType, title }: Media) {
  const [failed, setFailed] = useState<string | null>(null)
  const fail = () => setFailed(url)
  const kind = contentType.split('/', 1)[0]
  if (failed === url)
    return <Saving url={url} problem="This browser cannot display the file, or its URL has expired." />
  if (contentType === 'model/gltf-binary') return <MeshPreview key={url} url={url} title={title} onFailure={fail} />
  if (kind === 'image')
    return <Image src={url} alt={title} fit="contain" mah={480} w="auto" maw="100%" radius="sm" onError={fail} />
  if (kind === 'video')
    return (
      // biome-ignore lint/a11y/useMediaCaption: model output has no captions
      <video
        src={url}
        controls
        playsInline
        preload="metadata"
        aria-label={title}
        onError={fail}
        style={{ width: '100%', maxHeight: 480, borderRadius: 'var(--mantine-radius-sm)', background: 'black' }}
      />
    )
  if (kind === 'audio')
    return (
      // biome-ignore lint/a11y/useMediaCaption: model output has no captions
      <audio src={url} controls preload="metadata" aria-label={title} onError={fail} style={{ width: '100%' }} />
    )
  return <Saving url={url} problem={`No preview is available for ${contentType}.`} />
}

/** The viewer is large, so it is loaded on demand. */
function MeshPreview({ url, title, onFailure }: { url: string; title: string; onFailure: () => void }) {
  const [wanted, setWanted] = useState(false)
  if (wanted)
    return (
      <Suspense fallback={<Skeleton height={viewerHeight} />}>
        <MeshViewer url={url} title={title} height={viewerHeight} onFailure={onFailure} />
      </Suspense>
    )
  return (
    <Group gap="sm">
      <Button variant="default" leftSection={<IconCube size={16} aria-hidden />} onClick={() => setWanted(true)}>
        View in 3D
      </Button>
      <Save url={url} />
    </Group>
  )
}

function Saving({ url, problem }: { url: string; problem: string }) {
  return (
    <Stack gap={4} align="flex-start">
      <Text size="sm" c="dimmed">
        {problem}
      </Text>
      <Save url={url} />
    </Stack>
  )
}

function Save({ url }: { url: string }) {
  return (
    <Anchor href={url} download target="_blank" rel="noreferrer" size="sm">
      <Box component="span" mr={4} style={{ verticalAlign: 'middle' }}>
        <IconDownload size={15} aria-hidden />
      </Box>
      Download file
    </Anchor>
  )
}
