import { Box, ThemeIcon } from '@mantine/core'
import { useInViewport } from '@mantine/hooks'
import {
  IconCube,
  IconMessage,
  IconMessageCircleUser,
  IconMovie,
  IconUserScan,
  IconUserSquare,
} from '@tabler/icons-react'
import { type ComponentType, useEffect, useState } from 'react'
import type { JobKind, JobRow } from '../../../wire/jobs.ts'

const size = { width: 64, height: 40 }
const icons: Record<JobKind, ComponentType<{ size: number }>> = {
  video: IconMovie,
  lipsync: IconMessageCircleUser,
  face_swap: IconUserScan,
  avatar: IconUserSquare,
  mesh: IconCube,
  async: IconMessage,
}

/** A small picture of a job's result, loaded once it is on the screen; the icon of its kind where there is none. */
export function Thumbnail({ kind, thumbnail }: Pick<JobRow, 'kind' | 'thumbnail'>) {
  const { ref, inViewport } = useInViewport<HTMLDivElement>()
  const [wasSeen, setSeen] = useState(false)
  useEffect(() => {
    if (inViewport) setSeen(true)
  }, [inViewport])
  return (
    <Box ref={ref} style={{ ...size, flexShrink: 0 }} aria-hidden>
      {(wasSeen && thumbnail && <Picture {...thumbnail} kind={kind} />) || <KindIcon kind={kind} />}
    </Box>
  )
}

/** Every refresh of the list has another URL of the same file: the first one is kept until it fails. */
function Picture({ type, url, kind }: NonNullable<JobRow['thumbnail']> & { kind: JobKind }) {
  const [source, setSource] = useState(url)
  const [failed, setFailed] = useState<string | null>(null)
  if (failed === url) return <KindIcon kind={kind} />
  const shared = {
    onError: () => (source === url ? setFailed(url) : setSource(url)),
    style: { ...size, objectFit: 'cover', borderRadius: 'var(--mantine-radius-sm)', display: 'block' } as const,
  }
  if (type === 'image') return <img src={source} alt="" {...shared} />
  // The first frame: a browser reads only the beginning of the file for it.
  return <video src={`${source}#t=0.001`} preload="metadata" muted playsInline tabIndex={-1} {...shared} />
}

function KindIcon({ kind }: { kind: JobKind }) {
  const Icon = icons[kind]
  return (
    <ThemeIcon variant="default" radius="sm" w={size.width} h={size.height} c="dimmed">
      <Icon size={20} />
    </ThemeIcon>
  )
}
