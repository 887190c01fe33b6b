//! Packs a state into one number of up to 128 bits: global fields, then a chunk for each replica.

/// A packed state.
pub type State = u128;

/// Adjacent bits of a state or of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    shift: u32,
    mask: u128,
}

impl Field {
    #[inline(always)]
    pub fn get(self, bits: u128) -> u32 {
        ((bits >> self.shift) & self.mask) as u32
    }

    #[inline(always)]
    pub fn set(self, bits: u128, value: u32) -> u128 {
        debug_assert!(u128::from(value) <= self.mask, "a field overflows");
        (bits & !(self.mask << self.shift)) | (u128::from(value) << self.shift)
    }

    #[inline(always)]
    pub fn is(self, bits: u128) -> bool {
        self.get(bits) != 0
    }
}

/// Allocates the bits of a state or of a chunk, one field after the other.
#[derive(Default)]
pub struct Bits {
    used: u32,
}

impl Bits {
    /// Returns a field of the next `width` bits, at most 32.
    pub fn field(&mut self, width: u32) -> Field {
        assert!(width <= 32, "a field is a u32");
        let field = Field {
            shift: self.used,
            mask: (1 << width) - 1,
        };
        self.used += width;
        field
    }

    /// Returns a field for the numbers up to `max`.
    pub fn number(&mut self, max: u32) -> Field {
        self.field(u32::BITS - max.leading_zeros())
    }

    pub fn flag(&mut self) -> Field {
        self.field(1)
    }
}

/// The layout of a state: global fields, then the fields of each replica.
pub struct Layout {
    pub global: Bits,
    pub chunk: Bits,
    active: Field,
}

impl Default for Layout {
    fn default() -> Self {
        let mut chunk = Bits::default();
        Self {
            global: Bits::default(),
            active: chunk.flag(),
            chunk,
        }
    }
}

impl Layout {
    /// Returns the chunks of `count` replicas; an error message for the user if a state has no room
    /// for them.
    pub fn chunks(self, count: u32) -> Result<Chunks, String> {
        let (base, width) = (self.global.used, self.chunk.used);
        let bits = base + width * count;
        if bits > State::BITS {
            return Err(format!(
                "a state of this scope takes {bits} bits, and there are {}; ask for fewer \
                 replicas, records or reads",
                State::BITS
            ));
        }
        Ok(Chunks {
            count,
            active: self.active,
            base,
            width,
            mask: (1 << width) - 1,
        })
    }
}

/// The position of the replicas' chunks.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    pub count: u32,
    /// Whether the replica is active, in a chunk.
    pub active: Field,
    base: u32,
    width: u32,
    mask: u128,
}

impl Chunks {
    /// Returns the number of bits of a whole state.
    pub fn bits(&self) -> u32 {
        self.base + self.width * self.count
    }

    #[inline(always)]
    pub fn get(&self, state: State, replica: u32) -> u128 {
        (state >> (self.base + replica * self.width)) & self.mask
    }

    #[inline(always)]
    pub fn set(&self, state: State, replica: u32, chunk: u128) -> State {
        let shift = self.base + replica * self.width;
        (state & !(self.mask << shift)) | (chunk << shift)
    }

    #[inline(always)]
    pub fn each(&self, state: State) -> impl Iterator<Item = u128> + '_ {
        (0..self.count).map(move |replica| self.get(state, replica))
    }

    /// Returns the state in which all replicas are active and all other fields are 0.
    pub fn initial(&self) -> State {
        (0..self.count).fold(0, |state, r| self.switched(state, r, true))
    }

    /// Activates or deactivates a replica.
    #[inline(always)]
    pub fn switched(&self, state: State, replica: u32, on: bool) -> State {
        let chunk = self.active.set(self.get(state, replica), on.into());
        self.set(state, replica, chunk)
    }

    #[inline(always)]
    pub fn all_active(&self, state: State) -> bool {
        self.each(state).all(|chunk| self.active.is(chunk))
    }

    /// Sorts the chunks, which maps states that differ only by a permutation of replicas to one
    /// state. Valid only if no chunk names a replica.
    pub fn sorted(&self, state: State) -> State {
        let mut chunks = [0u128; 16];
        let count = self.count as usize;
        for (replica, chunk) in self.each(state).enumerate() {
            chunks[replica] = chunk;
        }
        chunks[..count].sort_unstable();
        (0..count).fold(state, |state, r| self.set(state, r as u32, chunks[r]))
    }
}
